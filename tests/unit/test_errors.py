import pickle

import lance_namespace
import pytest

from lakeroot.model import errors


def every_error() -> list[type[errors.LakerootError]]:
    found: list[type[errors.LakerootError]] = []
    pending = [errors.LakerootError]
    while pending:
        error = pending.pop()
        found.append(error)
        # Rooms may have errors of their own; those that cross the border are all defined here.
        pending.extend(e for e in error.__subclasses__() if e.__module__ == errors.__name__)
    return found


@pytest.mark.parametrize("error", every_error())
def test_every_error_has_a_code_of_the_specification(error: type[errors.LakerootError]) -> None:
    assert error.code in {int(code) for code in lance_namespace.ErrorCode}


def test_every_code_of_the_specification_has_an_error() -> None:
    assert {error.code for error in every_error()} == {int(c) for c in lance_namespace.ErrorCode}


@pytest.mark.parametrize("error", every_error())
def test_errors_travel_between_processes(error: type[errors.LakerootError]) -> None:
    copy = pickle.loads(pickle.dumps(error("What", "why", "fix")))

    assert type(copy) is error
    assert str(copy) == "What. why. fix"


def test_a_version_conflict_is_a_concurrent_modification() -> None:
    assert issubclass(errors.TableVersionAlreadyExistsError, errors.ConcurrentModificationError)
