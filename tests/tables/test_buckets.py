"""Tables in a bucket: the same promises on an object store."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import boto3
import pyarrow as pa
import pytest

from lakeroot.model import errors
from lakeroot.tables import columns, describe, indexes, refs, rows, search, transactions
from lakeroot.tables.handle import TableHandle
from lakeroot.tables.transactions import SetProperty
from tests.iceberg.servers import ACCESS_KEY, SECRET_KEY, Weed, weed
from tests.tables.conftest import ROWS

pytestmark = pytest.mark.xdist_group("buckets")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Weed]:
    with weed(tmp_path_factory.mktemp("weed")) as running:
        client = boto3.client(
            "s3",
            endpoint_url=running.s3,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            region_name="us-east-1",
        )
        client.create_bucket(Bucket="lake")
        yield running


def handle(store: Weed, name: str) -> TableHandle:
    return TableHandle(f"s3://lake/some where/{name}.lance", store.storage)


def test_every_kind_of_operation_works_in_a_bucket(store: Weed) -> None:
    table = handle(store, "all")
    rows.create(table, ROWS)
    inserted = rows.insert(table, ROWS)
    rows.delete(table, "id = 1")
    indexes.create_index(table, indexes.IndexRequest("id", "BTREE"))
    columns.add_columns(table, {"next": "id + 1"})
    refs.create_tag(table, "first", 1)
    refs.create_branch(table, "dev", from_version=1)
    rows.insert(table, ROWS, branch="dev")
    refs.restore(table, 2)
    assert inserted.transaction_id is not None

    assert rows.count_rows(table) == 6
    assert rows.count_rows(table, tag="first") == 3
    assert rows.count_rows(table, branch="dev") == 6
    assert search.query(table, search.Query(k=2, vector=[1.0, 0.0])).read_all().num_rows == 2
    assert describe.describe(table).version == 6
    noted = transactions.alter_transaction(
        table, inserted.transaction_id, [SetProperty("by", "ann")]
    )
    assert (noted.version, noted.properties["by"]) == (2, "ann")


def test_faults_of_a_bucket_have_their_codes(store: Weed) -> None:
    table = handle(store, "faults")
    with pytest.raises(errors.TableNotFoundError):
        rows.count_rows(table, version=1)
    rows.create(table, ROWS)

    with pytest.raises(errors.TableAlreadyExistsError):
        rows.create(table, ROWS)
    with pytest.raises(errors.TableVersionNotFoundError):
        rows.count_rows(table, version=9)
    with pytest.raises(errors.TableBranchNotFoundError):
        rows.count_rows(table, branch="zz")
    with pytest.raises(errors.UnauthenticatedError):
        rows.count_rows(
            TableHandle(table.location, store.storage | {"aws_secret_access_key": "wrong"})
        )
    with pytest.raises(errors.TableNotFoundError):
        rows.count_rows(TableHandle("s3://no-such-bucket/t.lance", store.storage))


def test_writers_to_a_bucket_lose_nothing(store: Weed) -> None:
    table = handle(store, "race")

    def create(number: int) -> bool:
        try:
            rows.create(table, pa.table({"n": [number]}))
        except errors.TableAlreadyExistsError:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(create, range(6))) == 1
        made = list(pool.map(lambda n: rows.insert(table, pa.table({"n": [n]})), range(12)))

    assert sorted(one.version for one in made) == list(range(2, 14))
    assert rows.count_rows(table) == 13
