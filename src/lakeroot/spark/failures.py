"""Turn what Spark, py4j, Lance and namespace clients raise into errors a person can act on."""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from lakeroot.model import errors
from lakeroot.model.errors import LakerootError
from lakeroot.tables.faults import translation


def _tree(error: type[LakerootError]) -> Iterator[type[LakerootError]]:
    yield error
    for below in error.__subclasses__():
        yield from _tree(below)


_BY_NAME = {error.__name__: error for error in _tree(LakerootError)}
_BY_CODE = {error.code: error for error in reversed(list(_tree(LakerootError)))}
# Codes that several classes share belong to the most general one of them.
_BY_CODE |= {
    13: errors.InvalidInputError,
    14: errors.ConcurrentModificationError,
    18: errors.InternalError,
}

# An error that a Python worker raised reaches the driver as the text of a Java exception with the
# Python traceback in it; its last line names the class and the message.
_RAISED_IN_WORKER = re.compile(r"^(?:[\w.]+\.)?(\w+Error): (.*)$", re.MULTILINE)
# One of the driver's Python is quoted by Java, behind Java's own class or Spark's own words.
_QUOTED_BY_JAVA = re.compile(r"^.*?: (\w+Error): (.*?)(?: SQLSTATE: \w+)?$", re.MULTILINE)

# With this py4j begins, and names the call instead of what went wrong.
_CALLED = "An error occurred while calling"


# What Lance says of a file that is not there, and of one whose bytes it can make nothing of.
_GONE = re.compile(
    r"Not found: (?:\S*/)?((?:data|_deletions|_indices)/[^\s,]+\.(?:lance|arrow|bin|idx))"
)
_DAMAGED = re.compile(
    r"Encountered corrupt file|does not appear to be a Lance file|failed to fill whole buffer"
    r"|file size is too small|Invalid range \S+ for object of size|panicked with message"
    r"|Invalid argument error: Invalid UTF8 sequence"
)
_RESTORE = "Restore the file from a copy, or an older version of the table"
_CLASS = re.compile(r"^\w+(?:Error|Exception): ")
# Classes of Java whose names add nothing to the message, unlike that of an unknown host.
_PLAIN_CLASS = re.compile(
    r"^(?:java\.(?:lang\.Runtime|io\.IO)|org\.apache\.spark\.Spark\w*)Exception: (?=\S)"
)
_NO_TIME = "[UNSUPPORTED_TIME_TYPE]"
# What Spark says when it cannot write files of its own.
_NO_PLACE = re.compile(
    r"Mkdirs failed to create|AccessControlException|ParentNotDirectoryException"
    r"|(?:FileNotFoundException|FileSystemException|AccessDeniedException): \S+.*"
    r"(?:Permission denied|Read-only file system|Not a directory)"
)
_DEAD_WORKER = "Python worker exited unexpectedly"

# Spark says with these what is wrong with a query (42; 21 if it gives too many columns or rows, 0A
# if Spark has no such thing) or with a value in the data (22): a path that does not exist, a
# column, a text that is no number. Everything else is no mistake of a user.
_MISTAKE = re.compile(r"SQLSTATE: (?:0A|21|22|42)\w{3}")
_MISSING = {
    "[TABLE_OR_VIEW_NOT_FOUND]": errors.TableNotFoundError,
    "[SCHEMA_NOT_FOUND]": errors.NamespaceNotFoundError,
}
"""What a statement asks for and is not there; inside of a view or a step it is a wrong query."""

# What follows a message and is none: a trace, a plan, a piece of the statement.
_BESIDE = re.compile(r"\s*$|\s*at |Caused by: |Traceback|(?:Driver|JVM) stacktrace|==|--|['+*:(]")
_MOST_LINES = 8


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Let Lakeroot's errors pass; turn every other failure into one of them."""
    try:
        yield
    except LakerootError:
        raise
    except Exception as error:
        raise explained(what, error) from error
    except BaseException as error:
        # A panic in Rust is not an `Exception`.
        if type(error).__name__ != "PanicException":
            raise
        raise explained(what, error) from error


@contextmanager
def translated_statement(what: str) -> Iterator[None]:
    """Do the same for a statement of a person: a name that is not there is said to be missing."""
    try:
        with translated(what):
            yield
    except errors.InvalidInputError as error:
        missing = (kind for name, kind in _MISSING.items() if name in str(error))
        kind = next(missing, None)
        if kind is None:
            raise
        raise kind(error.what, error.why, error.fix) from error


def explained(what: str, error: BaseException) -> LakerootError:
    """Say a failure of another library in Lakeroot's words."""
    code = getattr(error, "code", None)
    number = getattr(code, "value", code)
    if isinstance(number, int) and number in _BY_CODE:
        return _BY_CODE[number](what, _first_line(error))
    text = str(error)
    for raised in (_RAISED_IN_WORKER, _QUOTED_BY_JAVA):
        for name, message in reversed(raised.findall(text)):
            if name in _BY_NAME:
                return _BY_NAME[name](message)
    if _is_commit_conflict(text):
        return errors.ConcurrentModificationError(
            what, "Another writer changed the same rows first", "Run the job again"
        )
    if _NO_TIME in text:
        return errors.InvalidInputError(
            what,
            "Spark computes nothing with times of day unless it is told to",
            "Set `spark.sql.timeType.enabled` to true in the session",
        )
    if _NO_PLACE.search(text):
        return errors.InvalidInputError(
            what,
            "the directory cannot be made or written to",
            "Check the path, and the permissions of whoever runs Spark",
        )
    if _MISTAKE.search(text):
        return errors.InvalidInputError(what, _root_cause(text))
    found = damage(what, text) or _of_lance(what, text)
    return found or errors.InternalError(what, _root_cause(text))


def damage(what: str, text: str) -> LakerootError | None:
    """Tell from Lance's words that a file of a table is missing or damaged; nothing if none is."""
    gone = _GONE.search(text)
    if gone is not None:
        fix = f"{_RESTORE}; `lakeroot fsck` names every file that is missing"
        return errors.InvalidTableStateError(what, f"the file {gone[1]} is missing", fix)
    if _DAMAGED.search(text) is None:
        return None
    why = "a file of the table is damaged and cannot be read"
    return errors.InvalidTableStateError(what, why, _RESTORE)


def _of_lance(what: str, text: str) -> LakerootError | None:
    """Tell what is wrong with the input, or with the disk under a table, from Lance's words."""
    known = translation(OSError(_CLASS.sub("", _root_cause(text))), what)
    said = known.what.removeprefix(what)
    if said not in (" failed", " failed inside Lance"):
        return type(known)(what, f"{known.what}: {known.why}", known.fix)
    if isinstance(known, errors.InternalError):
        return None
    return type(known)(what, known.why, known.fix)


def _is_commit_conflict(text: str) -> bool:
    return "CommitConflict" in text or "commit conflict" in text.lower()


def _first_line(error: BaseException) -> str:
    return _sentence(str(error).strip().splitlines()) or type(error).__name__


def _sentence(lines: Sequence[str]) -> str:
    """Put a message into one line: its first, and those without which that one has no end."""
    said, *rest = lines or [""]
    lists = said.endswith(":")
    for line in rest[:_MOST_LINES]:
        goes_on = lists or said.endswith((":", ",")) or line[:1].islower()
        if not goes_on or "SQLSTATE: " in said or _BESIDE.match(line):
            break
        said = f"{said} {line.strip()}"
    return said.removesuffix(";")


def _root_cause(text: str) -> str:
    """Pick the sentence of a long Java or Python trace that says what went wrong."""
    raised = _RAISED_IN_WORKER.findall(text)
    if raised:
        name, message = raised[-1]
        return _without_place(f"{name}: {message}")
    if _DEAD_WORKER in text:
        return "a Python worker was killed, ran out of memory, or crashed in a library"
    _, _, cause = f"\n{text}".rpartition("\nCaused by: ")
    lines = cause.strip().splitlines()
    if lines and lines[0].startswith(_CALLED) and len(lines) > 1:
        # The next line is of Java: a colon, the class, the message.
        lines = [lines[1].lstrip(": "), *lines[2:]]
    return _without_place(_PLAIN_CLASS.sub("", _sentence(lines)))


def _without_place(line: str) -> str:
    """Leave out the place in its own source that Rust appends, which tells a user nothing."""
    return re.sub(r",? ?[\w/.-]*/[\w.-]+\.rs:\d+(:\d+)?$", "", line)


def nearest(word: str, words: Iterable[str]) -> str:
    """Write a suggestion: the closest valid words, or all of them when they are few."""
    known = sorted(words)
    close = difflib.get_close_matches(word, known, n=3, cutoff=0.6)
    if close:
        return "Did you mean " + " or ".join(repr(name) for name in close) + "?"
    if not known:
        return ""
    shown = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
    return f"There is: {shown}"
