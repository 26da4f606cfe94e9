"""Turn what Spark, py4j, Lance and namespace clients raise into errors a person can act on."""

import difflib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from lakeroot.model import errors
from lakeroot.model.errors import LakerootError


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

# With this py4j begins, and names the call instead of what went wrong.
_CALLED = "An error occurred while calling"


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Let Lakeroot's errors pass; turn every other failure into one of them."""
    try:
        yield
    except LakerootError:
        raise
    except Exception as error:
        raise explained(what, error) from error


def explained(what: str, error: BaseException) -> LakerootError:
    """Say a failure of another library in Lakeroot's words."""
    code = getattr(error, "code", None)
    number = getattr(code, "value", code)
    if isinstance(number, int) and number in _BY_CODE:
        return _BY_CODE[number](what, _first_line(error))
    text = str(error)
    for name, message in reversed(_RAISED_IN_WORKER.findall(text)):
        if name in _BY_NAME:
            return _BY_NAME[name](message)
    if _is_commit_conflict(text):
        return errors.ConcurrentModificationError(
            what, "Another writer changed the same rows first", "Run the job again"
        )
    return errors.InternalError(what, _root_cause(text))


def _is_commit_conflict(text: str) -> bool:
    return "CommitConflict" in text or "commit conflict" in text.lower()


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _root_cause(text: str) -> str:
    """Pick the one line of a long Java or Python trace that says what went wrong."""
    raised = _RAISED_IN_WORKER.findall(text)
    if raised:
        name, message = raised[-1]
        return f"{name}: {message}"
    causes = re.findall(r"^Caused by: (.*)$", text, re.MULTILINE)
    lines = [causes[-1]] if causes else text.strip().splitlines()
    if lines and lines[0].startswith(_CALLED) and len(lines) > 1:
        # The next line is of Java: a colon, the class, the message.
        lines = [lines[1].lstrip(": ").removeprefix("org.apache.spark.SparkException: ")]
    # Rust appends the place in its own source, which tells a user nothing.
    return re.sub(r",? ?/[\w/.-]+\.rs:\d+(:\d+)?$", "", lines[0]) if lines else ""


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
