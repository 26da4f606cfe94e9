"""The border where Lance's own exceptions become the catalog's errors.

pylance raises ``ValueError``, ``OSError``, ``RuntimeError`` and others for the same causes, and
tells them apart only in its messages, which end with places in its Rust sources. `RULES` reads
those messages, most specific first; nothing outside this module does.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import pyarrow as pa
from lance.commit import CommitConflictError

from lakeroot.model import errors
from lakeroot.model.errors import LakerootError


class OutOfTimeError(errors.ConcurrentModificationError):
    """Other writers were first again and again, until the time for it was over."""


class RefGoneError(errors.InvalidTableStateError):
    """A tag or branch that Lance has listed has no file: mostly it was deleted meanwhile."""


class Rule(NamedTuple):
    """A message Lance writes, and what it means to the catalog's users."""

    message: re.Pattern[str]
    error: type[LakerootError]
    what: str
    fix: str = ""


def _rule(message: str, error: type[LakerootError], what: str, fix: str = "") -> Rule:
    return Rule(re.compile(message, re.DOTALL), error, what, fix)


_INPUT: Final = r"^(?:External error: )?(?:Invalid user input: )*"
_OF_INDEX: Final = r"(?:Failed to get index statistics for index .*?: )?"
_STORAGE: Final = rf"^{_OF_INDEX}(?:External error: )?LanceError\(IO\).*"
_WRAPPED: Final = rf"^{_OF_INDEX}(?:External error: |Wrapped error: |LanceError\(\w+\): )*"
_OWN_FILE: Final = r"Not found: [^'\"]*/(?:data|_deletions|_indices|_transactions)/"

# Messages quote what users wrote, so rules are anchored: nobody's predicate may look like a fault.
RULES: Final[tuple[Rule, ...]] = (
    _rule(
        r"^(?:Wrapped error: )?Commit result for version (?P<name>\d+) is unknown",
        errors.ServiceUnavailableError,
        "It is not known whether version {name} was committed",
        "Look at the latest version of the table before trying again",
    ),
    _rule(
        r"^Too many concurrent writers\. Attempted \d+ times, but failed on retry_timeout",
        OutOfTimeError,
        "Too many writers change the table at once",
        "Repeat the change, with fewer writers at a time or with a longer timeout",
    ),
    _rule(
        r"^(?:Retryable )?[Cc]ommit conflict|^Incompatible transaction"
        r"|^Too (?:much write contention|many concurrent writers)",
        errors.ConcurrentModificationError,
        "Another writer changed the table first",
        "Read the table again, then repeat the change",
    ),
    _rule(
        r"^(?:Ref not found: )?Ref not found error: tag (.+) does not exist",
        errors.TableTagNotFoundError,
        "The table has no tag {name!r}",
        "List the tags of the table to see those it has",
    ),
    _rule(
        r"^Ref conflict error: tag (.+) already exists",
        errors.TableTagAlreadyExistsError,
        "The table already has a tag {name!r}",
        "Update the tag to move it",
    ),
    _rule(
        r"^Ref not found error: [Bb]ranch (.+) does not exist",
        errors.TableBranchNotFoundError,
        "The table has no branch {name!r}",
        "List the branches of the table to see those it has",
    ),
    _rule(
        r"^Ref conflict error: [Bb]ranch (.+) already exists",
        errors.TableBranchAlreadyExistsError,
        "The table already has a branch {name!r}",
    ),
    _rule(
        r"^Version not found error: version (?:main:)?(\S+) does not exist",
        errors.TableVersionNotFoundError,
        "The table has no version {name}",
        "List the versions of the table to see those it has",
    ),
    _rule(
        r"^Ref conflict error: Branch (.+) is referenced by tags",
        errors.InvalidTableStateError,
        "Tags name versions of the branch {name!r}",
        "Delete those tags first, or move them to other versions",
    ),
    _rule(
        r"^Ref conflict error: Branch (.+) is referenced by",
        errors.InvalidTableStateError,
        "Other branches start from the branch {name!r}",
        "Delete those first",
    ),
    _rule(
        r"^Not found: .*/_refs/.*\.json",
        RefGoneError,
        "A tag or branch of the table cannot be read",
        "Its name has letters that Lance does not find again; remove its file from _refs",
    ),
    _rule(r"^Ref is invalid", errors.InvalidInputError, "The name of a tag or branch is not valid"),
    _rule(
        r"^Lance index not found: name=(.+?), |^Index \"(.+)\" not found",
        errors.TableIndexNotFoundError,
        "The table has no index {name!r}",
        "List the indexes of the table to see those it has",
    ),
    _rule(
        r"^LanceError\(Index\): Index name '(.*)' already exists",
        errors.TableIndexAlreadyExistsError,
        "The table already has an index {name!r}",
        "Choose another name, or drop the index first",
    ),
    _rule(
        r"^Append with different schema|^The field `.*` contained null values"
        r"|^(?:Invalid user input|LanceError\(Arrow\)).*"
        r"(?:declared as non-nullable|contained null values even though)",
        errors.TableSchemaValidationError,
        "The data does not fit the schema of the table",
        "Describe the table to see its schema",
    ),
    _rule(
        _INPUT + r"(?:Schema error: No field named (\"(?:[^\"]|\"\")+\"|\S+?)\.(?:\s|,|$)"
        r"|(?:Merge insert key c|Embedding c|C)olumn ['\"]?(.+?)['\"]? "
        r"(?:does not exist|is not in the dataset)"
        r"|(?:LanceError\(Index\): FTS field path|Field) '(.+?)' (?:does not exist|not found)"
        r"|Error during planning: Field (\S+) not found in struct)"
        r"|^(.+) not found in schema$",
        errors.TableColumnNotFoundError,
        "The table has no column {name!r}",
        "Describe the table to see its columns",
    ),
    _rule(
        _INPUT + "No object store provider found",
        errors.InvalidInputError,
        "The location cannot be opened",
    ),
    _rule(
        # The last is a panic of Lance over a manifest whose numbers are damaged.
        _WRAPPED + r"(?:Encountered corrupt file|Invalid argument error: Invalid UTF8 sequence)"
        r"|^range (?:start|end) index \d+ out of range"
        # What cannot be read of a file of deletions is told by its place alone.
        r"|" + _WRAPPED + r"(?:Io|Parser|Ipc|Schema|Invalid argument) error: [^'\"]*deletion\.rs:",
        errors.InvalidTableStateError,
        "A file of the table cannot be read",
        "Restore the file, or an older version of the table",
    ),
    _rule(
        _WRAPPED + _OWN_FILE + "|" + _STORAGE + _OWN_FILE,
        errors.InvalidTableStateError,
        "A file of the table is missing",
        "Restore the file, or an older version of the table",
    ),
    _rule(
        _WRAPPED + r"Query Execution error: (?:Execution error|Error applying filter expression)",
        errors.InvalidInputError,
        "{doing} failed",
        "Write the expression so that it has a value for every row",
    ),
    _rule(
        # A panic of Lance, which cannot hand such names to Python.
        r"^called `Result::unwrap\(\)`.*NulError",
        errors.InvalidInputError,
        "{doing} failed: a name has a NUL inside",
    ),
    _rule(
        r"^Invalid user input|^(?:External error: )?LanceError\((?:Arrow|Schema|Index)\)"
        r"|^(?:LanceError\(\w+\): )?Not supported",
        errors.InvalidInputError,
        "{doing} failed",
    ),
    _rule(
        r"^Dataset already exists",
        errors.TableAlreadyExistsError,
        "There is already a table at this location",
    ),
    _rule(
        r"^Dataset at path .* was not found|^Not found: .*/_versions"
        r"|" + _STORAGE + r"(?:Not a directory \(os error 20\)|NoSuchBucket)",
        errors.TableNotFoundError,
        "There is no table at this location",
        "Create the table, or check its name",
    ),
    _rule(
        _STORAGE + r"(?:InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken"
        r"|401 Unauthorized|[Cc]redentials? )",
        errors.UnauthenticatedError,
        "The storage of the table does not accept the credentials",
        "Check the storage options",
    ),
    _rule(
        _STORAGE + r"(?:Permission denied|os error (?:13|30)\)|Access ?Denied|403 Forbidden)",
        errors.PermissionDeniedError,
        "The storage of the table refused",
        "Check the permissions of this process and the credentials in the storage options",
    ),
    _rule(
        _STORAGE + r"(?:SlowDown|429 Too Many|TooManyRequests)",
        errors.ThrottlingError,
        "The storage of the table asks for fewer requests",
        "Try again later",
    ),
    _rule(
        _STORAGE + r"(?:error sending request|[Cc]onnection|timed out|dns error|50[0234] )",
        errors.ServiceUnavailableError,
        "The storage of the table does not answer",
        "Check that it can be reached, then try again",
    ),
    _rule(
        _STORAGE
        + r"(?:No space left on device|os error (?:28|122)\)|507 Insufficient|StorageFull)",
        errors.InternalError,
        "The disk of the table is full",
        "Free some space, then try again",
    ),
    _rule(
        _STORAGE + r"(?:file size is too small|failed to fill whole buffer|Invalid range|[Mm]agic"
        r"|[Cc]orrupt|Protobuf|manifest)",
        errors.InvalidTableStateError,
        "A file of the table cannot be read",
        "Restore the file, or an older version of the table",
    ),
    _rule(
        r"^called `Result::unwrap\(\)`.*Unsupported logical type",
        errors.InvalidTableStateError,
        "The schema of the table cannot be read",
        "Upgrade if a newer Lance wrote the table; else restore an older version of it",
    ),
    _rule(
        r"LanceError\(IO\)|internal error|panicked",
        errors.InternalError,
        "{doing} failed inside Lance",
        "Please report this to the maintainers of Lakeroot",
    ),
)

BY_CODE: Final[dict[int, type[LakerootError]]] = {}
"""The error of each code, for errors that come from a catalog's client by their code."""


def _enter_by_code(error: type[LakerootError]) -> None:
    for child in error.__subclasses__():
        # Doors have errors of their own, with the same codes, for what they refuse themselves.
        if "code" in child.__dict__ and child.__module__ == errors.__name__:
            BY_CODE[child.code] = child
        _enter_by_code(child)


_enter_by_code(LakerootError)
BY_CODE[errors.InternalError.code] = errors.InternalError


def _phrase(error: type[LakerootError]) -> str:
    """Give the words by which Lance quotes an error of a catalog: ``Table version not found``."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", error.__name__.removesuffix("Error")).capitalize()
    return {"Unsupported operation": "Unsupported", "Internal": "Internal error"}.get(
        words, "Table schema validation error" if "schema" in words else words
    )


_BY_PHRASE: Final = {_phrase(error): error for error in BY_CODE.values()}
_QUOTED: Final = re.compile(r"^(?:LanceError\(\w+\): )?Namespace error: ([A-Z][a-z ]+): ")

# Places in Rust sources, in both forms Lance writes them.
_PLACES: Final = re.compile(
    r",?\s*(?:location:\s*)?(?:[^\s,'\"]*/)?[\w.-]+\.rs:\d+(?::\d+)?"
    r"|,?\s*location: Location \{[^}]*\}|,?\s*backtrace: \w+"
)
_NOISE: Final = re.compile(
    r"LanceError\(\w+\): |Invalid user input: |External error: |Wrapped error: |Generic \S+ error: "
    r"|Failed to convert schema: |, please specify a different name or use replace=True"
    r"|Encountered internal error\. Please file a bug report at \S+ "
    r"|Query Execution error: (?:Execution error: )?|Error applying filter expression to batch: "
    r"|Error performing .+? - |Arrow error: |C Data interface error: |Ref \w+(?: \w+)? error: "
)
# Debug forms of Rust values, tracebacks, and bodies of a bucket, which may hold keys.
_DUMPS: Final = re.compile(
    r"(?: in (?:dataset )?schema)?:\s+Schema \{.*|\s*Received only dynamic expressions:.*"
    r"|\s*Detail: Python.*|: \w+\((?:\[\(\d+, )?\w+ \{.*",
    re.DOTALL,
)
_BODY: Final = re.compile(r"<\?xml.*?<Code>(\w+)</Code>.*</Error>", re.DOTALL)
_LONGEST: Final = 600
_TYPES_OF_BAD_INPUT: Final = (
    ValueError,
    TypeError,
    KeyError,
    OverflowError,
    NotImplementedError,
    pa.ArrowException,
)


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Turn what Lance raises while `doing` something into an error with a code and advice."""
    try:
        yield
    except LakerootError:
        raise
    except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
        raise
    except BaseException as error:
        # A panic in Rust is not an `Exception`; a server must survive it all the same.
        raise translation(error, doing) from error


def translation(error: BaseException, doing: str) -> LakerootError:
    """Find the catalog's word for an exception of Lance or of a catalog's client."""
    code = getattr(error, "code", None)
    if isinstance(code, int) and code in BY_CODE:
        return BY_CODE[code](clean(str(error)) or type(error).__name__)
    message = _text_of(error)
    quoted = _QUOTED.match(message)
    if quoted is not None and quoted[1] in _BY_PHRASE:
        return _BY_PHRASE[quoted[1]](clean(message[quoted.end() :]))
    for rule in RULES:
        found = rule.message.search(message)
        if found is not None:
            name = next((text.strip('"') for text in found.groups() if text), "")
            return rule.error(rule.what.format(name=name, doing=doing), clean(message), rule.fix)
    if isinstance(error, CommitConflictError):
        return errors.ConcurrentModificationError(f"{doing} met another writer", clean(message))
    if isinstance(error, _TYPES_OF_BAD_INPUT):
        return errors.InvalidInputError(f"{doing} failed", clean(message))
    return errors.InternalError(f"{doing} failed", clean(message) or type(error).__name__)


def _text_of(error: BaseException) -> str:
    parts = [part for part in error.args if isinstance(part, str)]
    if isinstance(error, KeyError) and error.args:
        return str(error.args[0])
    # pylance raises some errors with a message in pieces, which would be shown as a tuple.
    is_in_pieces = len(parts) > 1 and len(parts) == len(error.args) and type(error) is TypeError
    return "".join(parts) if is_in_pieces else str(error)


def clean(message: str) -> str:
    """Keep of a message of Lance what a user of a catalog can read."""
    text = _BODY.sub(r"\1", message)
    text = _DUMPS.sub("", text)
    text = _PLACES.sub("", text)
    text = _NOISE.sub("", text)
    text = " ".join(text.split()).strip(" ,")
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
