"""Errors on the command line: what happened, why, what to do; and an exit code for scripts.

0  done                       4  conflict: somebody else was first
1  failed                     5  not allowed
2  bad input                  6  the storage or server does not answer
3  not found                130  interrupted
"""

from typing import Final

import click

from lakeroot.cli.config import wants_colour
from lakeroot.model import errors

EXIT_FAILED: Final = 1
EXIT_BAD_INPUT: Final = 2
_CODES: Final = {
    **dict.fromkeys((1, 4, 6, 8, 10, 11, 12, 22), 3),
    **dict.fromkeys((2, 3, 5, 7, 9, 14, 19, 23), 4),
    **dict.fromkeys((15, 16), 5),
    **dict.fromkeys((17, 21), 6),
    **dict.fromkeys((0, 13, 20), EXIT_BAD_INPUT),
}


def report(error: Exception, *, debug: bool) -> int:
    """Print an error for a person; give the exit code."""
    if debug:
        import traceback

        traceback.print_exception(error)
    known = _known(error)
    if known is None:
        click.secho(f"{type(error).__name__}: {error}", fg="red", err=True, color=wants_colour())
        click.echo("This is unexpected; --debug shows where it happened.", err=True)
        return EXIT_FAILED
    click.secho(known.what, fg="red", err=True, color=wants_colour())
    for line in (known.why, known.fix):
        if line:
            end = "" if line.endswith((".", "?", "!", "…")) else "."
            click.echo(f"  {line[:1].upper()}{line[1:]}{end}", err=True)
    return exit_code_of(known.code)


def exit_code_of(code: int) -> int:
    """Give the exit code for the code of an error."""
    return _CODES.get(code, EXIT_FAILED)


def _known(error: BaseException | None) -> errors.LakerootError | None:
    """Find our own error behind what the Lance ecosystem's face made of it."""
    while error is not None:
        if isinstance(error, errors.LakerootError):
            return error
        if error.__cause__ is None and hasattr(error, "code"):
            return _coded(error)
        error = error.__cause__
    return None


def _coded(error: BaseException) -> errors.LakerootError:
    """Take an error of another implementation for one of ours of the same code."""
    code = getattr(error, "code", None)
    kinds = [errors.LakerootError]
    for kind in kinds:
        kinds += kind.__subclasses__()
        if kind.code == code:
            return kind(str(error))
    return errors.InternalError(str(error))
