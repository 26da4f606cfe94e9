"""``lakeroot fsck``, ``gc`` and ``optimize`` as people and scripts call them."""

import io
import json
from pathlib import Path

import pytest

from tests.cli.running import Run
from tests.fsck.conftest import make_old, opened
from tests.fsck.test_damage import hide_table, leave_staged_manifest, lose_data_of_table
from tests.fsck.test_gc import leave_uncommitted


@pytest.fixture
def run(root: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(root, capsys)


def test_a_catalog_in_order_says_so_and_leaves_with_0(run: Run) -> None:
    assert run("fsck") == (0, "Everything is in order.\n", "")
    assert run("-o", "json", "fsck")[:2] == (0, "[]\n")
    assert run("gc", "--yes")[:2] == (0, "There is no garbage.\n")


def test_an_error_leaves_with_1_and_names_the_file(run: Run, root: Path) -> None:
    lose_data_of_table(root)

    code, out, _ = run("-o", "json", "fsck")

    (found,) = json.loads(out)
    assert code == 1
    assert (found["code"], found["severity"], found["object"]) == (
        "table-file-missing",
        "error",
        "r",
    )
    assert found["repairable"] is False
    assert run("fsck", "--repair")[0] == 1


def test_repairs_are_planned_made_and_not_needed_again(run: Run, root: Path) -> None:
    hide_table(root)
    leave_staged_manifest(root)
    make_old(root)

    assert run("fsck")[0] == 0
    planned = json.loads(run("-o", "json", "fsck", "--repair", "--dry-run")[1])
    assert [one["repair"] for one in planned] == ["would be repaired"] * 2
    done = json.loads(run("-o", "json", "fsck", "--repair")[1])
    assert [one["repair"] for one in done] == ["repaired"] * 2
    assert run("fsck")[1] == "Everything is in order.\n"


def test_a_shorter_grace_finds_younger_leftovers(run: Run, root: Path) -> None:
    leave_staged_manifest(root)

    assert run("fsck")[1] == "Everything is in order.\n"
    assert "leftover-staged-manifest" in run("fsck", "--grace", "0s")[1]


def test_garbage_is_shown_then_asked_about_then_deleted(
    run: Run, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = leave_uncommitted(root, "0a1b2c3d_air$x")
    make_old(root)

    shown = json.loads(run("-o", "json", "gc", "--dry-run")[1])
    assert place.name in {one["path"] for one in shown}
    assert all(one["bytes"] > 0 for one in shown)
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert run("gc")[0] == 130
    assert place.exists()
    assert run("gc", "--older-than", "2w", "--yes")[1] == "There is no garbage.\n"
    assert run("gc", "-y")[0] == 0
    assert not place.exists()


@pytest.mark.parametrize("span", ["", "7", "x", "-1d", "9999999999999w"])
def test_a_span_that_is_none_is_bad_input(run: Run, span: str) -> None:
    code, _, err = run("gc", "--older-than", span)

    assert code == 2
    assert "Traceback" not in err


def test_optimize_says_what_the_catalog_is_in_now(run: Run) -> None:
    code, out, _ = run("-o", "json", "optimize")

    assert code == 0
    assert json.loads(out)["data_files"] == 1


def test_a_notebook_shows_findings_as_a_table(root: Path) -> None:
    assert opened(root).check()._repr_html_() == "<p>Everything is in order.</p>"
    lose_data_of_table(root)

    found = opened(root).check()

    assert "table-file-missing" in found._repr_html_()
    assert len(found.errors) == 1
