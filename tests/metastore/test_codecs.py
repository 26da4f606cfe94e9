"""Records survive MessagePack, whatever is in them."""

from dataclasses import replace
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeroot.metastore import codecs, locators, manifests, records, schemes, states
from lakeroot.metastore.schemas import schema_of
from lakeroot.model.errors import LakerootError

# A machine that is busy with other things is no reason to fail.
UNHURRIED = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])

texts = st.text(max_size=12)
ids = st.uuids().map(str)
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
values = st.recursive(
    scalars | texts | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
properties = st.none() | st.dictionaries(texts, values, max_size=3)
# Keys no record knows: a later writer's, or another implementation's.
extras = st.dictionaries(texts.map(lambda text: f"x-{text}"), values, max_size=2)
optional_texts = st.none() | texts
counts = st.none() | st.integers(0, 2**40)
lineages = st.lists(ids, max_size=5).map(tuple)

transforms = st.builds(
    schemes.Transform,
    st.sampled_from(["identity", "bucket", "year"]),
    properties,
    st.none() | st.binary(max_size=4),
    extras,
)
partition_keys = st.builds(
    schemes.PartitionKey,
    st.lists(texts, max_size=2).map(tuple),
    st.none() | transforms,
    optional_texts,
    optional_texts,
    values,
    extras,
)
partition_schemes = st.builds(
    schemes.PartitionScheme,
    st.none() | st.lists(partition_keys, max_size=2).map(tuple),
    optional_texts,
    ids,
    values,
    extras,
)
sort_keys = st.builds(
    schemes.SortKey,
    st.lists(texts, max_size=2).map(tuple),
    st.sampled_from(states.SortOrder),
    st.sampled_from(states.NullOrder),
    st.none() | transforms,
    values,
)
sort_schemes = st.builds(
    schemes.SortScheme,
    st.none() | st.lists(sort_keys, max_size=2).map(tuple),
    optional_texts,
    ids,
    values,
    extras,
)
schema_records = st.sampled_from(
    [
        schema_of(pa.schema([("a", pa.int64())])),
        schema_of(pa.schema([("a", pa.int64()), ("b", pa.string())]), merge_keys=["a"]),
    ]
)
metas = st.builds(
    manifests.ManifestMeta,
    record_count=counts,
    content_length=counts,
    content_type=st.none() | st.sampled_from(["application/parquet", "text/csv"]),
    entry_params=st.none() | st.dictionaries(texts, values, max_size=2),
    schema_id=counts,
    extra=extras,
)
entries = st.builds(
    manifests.ManifestEntry, texts.filter(bool), metas, st.booleans(), st.none() | ids, extra=extras
)
manifest_records = st.builds(
    manifests.Manifest,
    st.lists(entries, max_size=3).map(tuple),
    metas,
    ids,
    st.none() | st.fixed_dictionaries({"name": texts, "version": texts}),
    extras,
)

namespace_locators = st.builds(locators.NamespaceLocator, texts)
table_locators = st.builds(locators.TableLocator, namespace_locators, texts.filter(bool))
version_locators = st.builds(locators.TableVersionLocator, table_locators, st.just("1"))
stream_locators = st.builds(locators.StreamLocator, version_locators, ids, texts)
partition_values = st.none() | st.lists(scalars | texts, min_size=1, max_size=3).map(tuple)
partition_locators = st.builds(locators.PartitionLocator, stream_locators, partition_values, ids)
delta_locators = st.builds(locators.DeltaLocator, partition_locators, st.integers(1, 2**63 - 1))

some_records: st.SearchStrategy[Any] = st.one_of(
    st.builds(records.Namespace, namespace_locators, ids, properties, lineages, extras),
    st.builds(
        records.Table,
        table_locators,
        ids,
        optional_texts,
        properties,
        optional_texts,
        optional_texts,
        values,
        lineages,
        extras,
    ),
    st.builds(
        records.TableVersion,
        version_locators,
        st.none() | schema_records,
        st.none() | st.lists(schema_records, max_size=2).map(tuple),
        st.none() | partition_schemes,
        st.none() | st.lists(partition_schemes, max_size=2).map(tuple),
        st.none() | sort_schemes,
        st.none() | st.lists(sort_schemes, max_size=2).map(tuple),
        optional_texts,
        properties,
        st.none() | st.lists(texts, max_size=2).map(tuple),
        counts,
        st.none() | st.sampled_from(states.LifecycleState),
        optional_texts,
        values,
        lineages,
        extras,
    ),
    st.builds(
        records.Stream,
        stream_locators,
        st.none() | partition_schemes,
        st.none() | st.sampled_from(states.CommitState),
        st.none() | ids,
        counts,
        values,
        lineages,
        extras,
    ),
    st.builds(
        records.Partition,
        partition_locators,
        st.none() | st.lists(texts, max_size=2).map(tuple),
        st.none() | st.sampled_from(states.CommitState),
        counts,
        st.none() | ids,
        counts,
        st.none() | ids,
        properties,
        lineages,
        extras,
    ),
    st.builds(
        records.Delta,
        delta_locators,
        st.sampled_from(states.DeltaType),
        st.none() | manifest_records,
        st.none() | metas,
        properties,
        counts,
        lineages,
        extras,
    ),
)


@given(some_records)
@UNHURRIED
def test_a_record_is_read_back_as_it_was_written(record: Any) -> None:
    read = codecs.decode(codecs.encode(record))

    # Names of ancestors are not stored; the reader gives them back from where it found them.
    assert _with_names_of(record, read) == record


def _with_names_of(record: Any, read: Any) -> Any:
    return replace(read, locator=record.locator) if _stored(record) == _stored(read) else read


def _stored(record: Any) -> tuple[Any, ...]:
    # Everything in a locator but the names of the namespace and the table above it.
    parts = record.locator.parts
    if isinstance(record, records.Namespace):
        return tuple(parts)
    return tuple(parts[1:] if isinstance(record, records.Table) else parts[2:])


@given(some_records)
@UNHURRIED
def test_writing_again_what_was_read_changes_no_byte(record: Any) -> None:
    content = codecs.encode(record)

    assert codecs.encode(codecs.decode(content)) == content


def test_keys_nobody_knows_survive_at_every_level() -> None:
    entry = {"url": "data/a.pq", "meta": {"zone": 1}, "mandatory": True, "tier": "cold"}
    tree = {
        "deltaLocator": {
            "partitionLocator": {
                "streamLocator": {
                    "tableVersionLocator": {
                        "tableLocator": {"namespaceLocator": {"namespace": "1"}, "tableName": "1"},
                        "tableVersion": "1",
                    },
                    "streamId": "s",
                    "format": "deltacat",
                },
                "partitionValues": None,
                "partitionId": "p",
            },
            "streamPosition": 1,
        },
        "type": "append",
        "manifest": {"id": "m", "meta": {}, "entries": [entry], "lineage": ["x"]},
        "future": {"a": [1]},
    }
    written = msgpack.unpackb(codecs.encode(codecs.decode(msgpack.packb(tree))))

    assert written["future"] == {"a": [1]}
    assert written["manifest"]["lineage"] == ["x"]
    assert written["manifest"]["entries"][0]["tier"] == "cold"
    assert written["manifest"]["entries"][0]["meta"]["zone"] == 1


def test_a_mutable_name_is_not_stored_in_a_child() -> None:
    place = locators.TableLocator(locators.NamespaceLocator("sales"), "orders")
    record = records.TableVersion(locators.TableVersionLocator(place, "1"))
    stored = msgpack.unpackb(codecs.encode(record))["tableVersionLocator"]["tableLocator"]

    assert stored == {"namespaceLocator": {"namespace": "1"}, "tableName": "1"}


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00", b"not msgpack at all", msgpack.packb({}), msgpack.packb([1, 2]), b"\x81\xa4x"],
)
def test_a_damaged_file_is_a_clear_error(content: bytes) -> None:
    with pytest.raises(LakerootError, match=r"cannot be read.*damaged"):
        codecs.decode(content, "a/rev/1.mpk")


@given(st.binary(max_size=60))
@UNHURRIED
def test_no_bytes_make_a_reader_fail_otherwise(content: bytes) -> None:
    try:
        codecs.decode(content)
    except LakerootError:
        return
