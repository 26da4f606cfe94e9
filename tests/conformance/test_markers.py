"""The suite itself: a marker cannot hide anything, and the matrix tells what is marked."""

import pytest

from tests.conformance.conftest import problem_with
from tests.conformance.matrix import KINDS, cannots, in_readme, matrix, stores_of, summary
from tests.conformance.stores import STORES


@pytest.mark.parametrize(
    "mark",
    [
        pytest.mark.never(["no-such-store"], raises=ValueError, reason="x"),
        pytest.mark.never(["memory"], reason="x"),
        pytest.mark.never(["memory"], raises=ValueError),
        pytest.mark.never(raises=ValueError, reason="x"),
        pytest.mark.never(["memory"], raises=ValueError, reason=""),
        pytest.mark.never(["memory"], raises=ValueError, reason="x", strict=False),
    ],
)
def test_a_marker_that_could_hide_something_is_refused(mark: pytest.MarkDecorator) -> None:
    assert problem_with(mark.mark)


def test_a_whole_marker_is_accepted() -> None:
    assert problem_with(pytest.mark.never(["memory"], raises=ValueError, reason="x").mark) is None


def test_the_memory_store_keeps_every_promise() -> None:
    assert not [promise for _, promise, stores, _ in cannots() if "memory" in stores]


def test_the_matrix_has_a_column_for_every_store() -> None:
    head = matrix().partition("\n")[0]
    assert [store for store in STORES if f"| {store} |" not in head + " |"] == []
    assert "never" in matrix()


def test_every_store_is_of_one_kind_of_the_readme() -> None:
    of_a_kind = [store for kind in KINDS for store in stores_of(kind)]

    assert sorted([*of_a_kind, "memory"]) == sorted(STORES)


def test_the_matrix_of_the_readme_is_what_the_marks_say() -> None:
    assert in_readme() == summary(), "run `python -m tests.conformance.matrix --readme`"
