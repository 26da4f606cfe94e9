"""The tool that makes mistakes makes real ones, and the tables in the docs are whole."""

import ast

import pytest

from tests.docs.sections import section
from tests.faults.matrix import COLUMNS, KINDS, Matrix, in_memory
from tests.mutation.__main__ import is_known, sample, table
from tests.mutation.equivalent import SAME
from tests.mutation.modules import CORE, MODULES, source_of
from tests.mutation.mutants import mutants_of, mutated


@pytest.mark.parametrize("module", MODULES[::6])
def test_every_mistake_compiles_and_differs(module: str) -> None:
    source = source_of(module)
    found = mutants_of(module, source)
    assert found
    right = ast.dump(ast.parse(source))
    for mutant in found[:: max(1, len(found) // 12)]:
        wrong = mutated(source, mutant.function, mutant.number)
        compile(wrong, module, "exec")
        assert ast.dump(wrong) != right, mutant


def test_the_same_seed_chooses_the_same_mistakes() -> None:
    assert sample(20, 1) == sample(20, 1)
    assert sample(20, 1) != sample(20, 2)


def test_a_run_that_was_cut_off_goes_on_with_what_is_known_of_unchanged_functions() -> None:
    (mutant,) = sample(1, 1)
    noticed = {"outcome": "killed", "digest": mutant.digest, "what": mutant.what}

    assert not is_known(None, mutant, again=False)
    assert is_known(noticed, mutant, again=True)
    assert is_known({**noticed, "outcome": "survived"}, mutant, again=False)
    assert not is_known({**noticed, "outcome": "survived"}, mutant, again=True)
    assert not is_known({**noticed, "digest": "of another text"}, mutant, again=False)


def test_what_is_left_out_exists_and_has_a_reason() -> None:
    possible = {
        (mutant.name, mutant.text)
        for module in MODULES
        for mutant in mutants_of(module, source_of(module))
    }
    assert set(SAME) <= possible
    assert all(len(reason.split()) > 3 for reason in SAME.values())


def test_the_table_counts_what_was_noticed() -> None:
    results = [
        {"name": f"lakeroot.model.rules:apply:{n}", "outcome": outcome}
        for n, outcome in enumerate(["killed", "killed", "killed", "survived"])
    ]
    assert "| `model` | 4 | 3 (75 %) | 1 | 0 |" in table(results, 1)
    assert all(f"`{room}`" in section("mutation") for room in CORE)


def test_a_crash_at_any_call_is_undone_or_done_in_every_kind_of_catalog() -> None:
    matrix = Matrix()
    in_memory(matrix, list(KINDS), {"declare", "drop"})

    assert matrix.points > 100
    assert matrix.broken == 0


def test_the_crash_matrix_of_the_docs_has_every_operation_and_enough_points() -> None:
    page = section("crashes")
    points = int(page.partition(" points")[0].replace(",", ""))

    assert points >= 600
    assert "0 of them neither" in page
    assert "SIGKILL" in page
    assert "| operation | " + " | ".join(COLUMNS) + " |" in page
    for kind in KINDS.values():
        for verb in kind.verbs:
            assert f"| {verb} |" in page
