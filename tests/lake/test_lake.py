import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import lakeroot
from lakeroot.model.errors import InvalidInputError, TableNotFoundError

FLIGHTS = pa.table({"flight": [1, 2, 3], "origin": ["JFK", "EWR", "LGA"]})


@pytest.fixture
def lake(tmp_path: Path) -> lakeroot.Lake:
    lake = lakeroot.open(str(tmp_path / "lake"), table_version_management="true", author="ada")
    lake.create_namespace("air", {"owner": "ada"})
    lake.create_table("air.flights", FLIGHTS)
    return lake


def test_a_table_is_found_by_its_dotted_name(lake: lakeroot.Lake) -> None:
    assert lake.tables() == ["air.flights"]
    assert lake.namespaces() == ["air"]
    assert "air.flights" in lake
    assert lake["air.flights"].to_arrow() == FLIGHTS
    assert lake["air.flights"].schema == FLIGHTS.schema


def test_a_name_with_a_dot_is_quoted(lake: lakeroot.Lake) -> None:
    lake.create_table('air."a.b"', FLIGHTS)

    assert lake.tables("air") == ['air."a.b"', "air.flights"]
    assert len(lake['air."a.b"']) == 3


def test_the_nearest_name_is_suggested(lake: lakeroot.Lake) -> None:
    with pytest.raises(TableNotFoundError, match=r"Did you mean air\.flights"):
        lake["air.flight"]


def test_rows_are_appended_merged_updated_and_deleted(lake: lakeroot.Lake) -> None:
    table = lake["air.flights"]
    table.append([{"flight": 4, "origin": "SFO"}])
    table.merge(pa.table({"flight": [4, 5], "origin": ["OAK", "SEA"]}), on="flight")
    table.update({"origin": "'BOS'"}, where="flight = 5")
    table.delete("flight = 1")

    rows = {row["flight"]: row["origin"] for row in table.to_arrow().to_pylist()}
    assert rows == {2: "EWR", 3: "LGA", 4: "OAK", 5: "BOS"}


def test_a_condition_is_read_to_its_end_or_refused(lake: lakeroot.Lake) -> None:
    table = lake["air.flights"]

    for act in (
        lambda: table.count("flight = 1 LIMIT 5"),
        lambda: table.to_arrow(where="flight = 1 LIMIT 5"),
    ):
        with pytest.raises(InvalidInputError):
            act()
    assert len(table) == 3


def test_a_tag_pins_a_version(lake: lakeroot.Lake) -> None:
    table = lake["air.flights"]
    table.tag("trained-on")
    table.append(FLIGHTS)

    assert table.tags() == {"trained-on": 1}
    assert table.to_arrow(version="trained-on").num_rows == 3
    table.restore(1)
    assert len(table) == 3


def test_the_nearest_vectors_and_the_best_texts_are_found(lake: lakeroot.Lake) -> None:
    vectors = pa.array([[0.0, 0.0], [1.0, 1.0]], pa.list_(pa.float32(), 2))
    lake.create_table("docs", pa.table({"text": ["cats purr", "dogs bark"], "vector": vectors}))
    lake.namespace.create_table_index({"id": ["docs"], "column": "text", "index_type": "FTS"})

    assert lake["docs"].search([0.9, 1.0], k=1)["text"].to_pylist() == ["dogs bark"]
    assert lake["docs"].search("cats", k=1)["text"].to_pylist() == ["cats purr"]


def test_several_tables_change_together_and_the_past_stays(lake: lakeroot.Lake) -> None:
    before = lake.history()[0].version
    with lake.transaction("both") as tx:
        tx.append(["air", "flights"], FLIGHTS)
        tx.create(["air", "origins"], FLIGHTS.select(["origin"]))

    newest = lake.history()[0]
    assert (newest.message, newest.author) == ("both", "ada")
    assert newest.created == (("air", "origins"),)
    past = lake.at(before)
    assert past.tables() == ["air.flights"]
    assert len(past["air.flights"]) == 3
    found = lake.diff(before)
    assert found.added == ("air.origins",)
    assert found.changed == (("air.flights", 1, 2),)
    assert not lake.diff(newest.version)


@pytest.mark.parametrize("moment", ["yesterday", "", "v", "2026-13-01"])
def test_what_is_no_moment_is_refused(lake: lakeroot.Lake, moment: str) -> None:
    with pytest.raises(InvalidInputError):
        lake.at(moment)


def test_a_notebook_shows_names_rows_and_history(lake: lakeroot.Lake) -> None:
    assert "air.flights" in lake._repr_html_()
    assert "JFK" in lake["air.flights"]._repr_html_()
    assert "air.flights@1" in lake.history()._repr_html_()


def test_what_holds_no_rows_is_refused(lake: lakeroot.Lake) -> None:
    with pytest.raises(InvalidInputError, match="does not hold rows"):
        lake["air.flights"].append(3)


def test_a_fresh_process_opens_a_managed_table_by_name(lake: lakeroot.Lake) -> None:
    # Here the catalog is asked from inside pylance before it has read anything itself.
    code = (
        "import lance, lance_namespace as n\n"
        f"c = n.connect('lakeroot.DirectoryNamespace', {{'root': {lake.address!r}}})\n"
        "c.describe_table({'id': ['air', 'flights']})\n"
        "print(lance.dataset(namespace_client=c, table_id=['air', 'flights']).count_rows())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.stdout.strip() == "3", done.stderr
