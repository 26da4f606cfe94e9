"""Records to MessagePack and back; pure functions, one table of fields per record.

Mutable names are not stored below the object that carries them: where a child's file has room for
the names of its namespace and table, the writer puts the child's own id, and a reader takes the
names from the ancestors (`with_names`). Keys that are not known here are kept in `extra`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import msgpack

from lakeroot.metastore import locators, manifests, records, schemas, schemes, states
from lakeroot.model.errors import InternalError, InvalidInputError, LakerootError

Tree = Mapping[str, Any]


class _Slot(NamedTuple):
    attribute: str
    key: str
    write: Callable[[Any], Any] = lambda value: value
    read: Callable[[Any], Any] = lambda value: value


def _optional(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else function(value)


def _many(function: Callable[[Any], Any], kind: type) -> Callable[[Any], Any]:
    return _optional(lambda values: kind(function(value) for value in values))


def _write(record: Any, slots: tuple[_Slot, ...], *, sparse: bool = False) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for slot in slots:
        value = getattr(record, slot.attribute)
        if value is not None or not sparse:
            tree[slot.key] = None if value is None else slot.write(value)
    return tree | dict(record.extra)


def _read(kind: Any, tree: Tree, slots: tuple[_Slot, ...], **given: Any) -> Any:
    known = {slot.key for slot in slots}
    values = {
        slot.attribute: None if tree.get(slot.key) is None else slot.read(tree[slot.key])
        for slot in slots
    }
    extra = {key: value for key, value in tree.items() if key not in known}
    return kind(**(values | given), extra=extra or schemes.nothing())


_TRANSFORM: Final = (
    _Slot("name", "name"),
    _Slot("parameters", "parameters"),
    _Slot("return_type", "return_type"),
)


def _write_transform(value: schemes.Transform) -> Any:
    return _write(value, _TRANSFORM, sparse=True)


def _read_transform(tree: Tree) -> schemes.Transform:
    transform: schemes.Transform = _read(schemes.Transform, tree, _TRANSFORM)
    return transform


_PARTITION_KEY: Final = (
    _Slot("key", "key", list, tuple),
    _Slot("name", "name"),
    _Slot("field_id", "fieldId"),
    _Slot("transform", "transform", _write_transform, _read_transform),
    _Slot("native_object", "nativeObject"),
)


def _write_partition_key(value: schemes.PartitionKey) -> Any:
    return _write(value, _PARTITION_KEY)


def _read_partition_key(tree: Tree) -> Any:
    return _read(schemes.PartitionKey, tree, _PARTITION_KEY)


_PARTITION_SCHEME: Final = (
    _Slot("keys", "keys", _many(_write_partition_key, list), _many(_read_partition_key, tuple)),
    _Slot("name", "name"),
    _Slot("id", "id"),
    _Slot("native_object", "nativeObject"),
)


def _write_sort_key(key: schemes.SortKey) -> Any:
    transform = None if key.transform is None else _write_transform(key.transform)
    return [list(key.key), key.order.value, key.null_order.value, transform, key.native_object]


def _read_sort_key(values: Any) -> schemes.SortKey:
    key, order, nulls, transform, native = [*values, None, None, None, None][:5]
    return schemes.SortKey(
        tuple(key),
        states.SortOrder(order or "ascending"),
        states.NullOrder(nulls or "at_end"),
        None if transform is None else _read_transform(transform),
        native,
    )


_SORT_SCHEME: Final = (
    _Slot("keys", "keys", _many(_write_sort_key, list), _many(_read_sort_key, tuple)),
    *_PARTITION_SCHEME[1:],
)


def _write_partition_scheme(value: schemes.PartitionScheme) -> Any:
    return _write(value, _PARTITION_SCHEME)


def _read_partition_scheme(tree: Tree) -> Any:
    return _read(schemes.PartitionScheme, tree, _PARTITION_SCHEME)


def _write_sort_scheme(value: schemes.SortScheme) -> Any:
    return _write(value, _SORT_SCHEME)


def _read_sort_scheme(tree: Tree) -> Any:
    return _read(schemes.SortScheme, tree, _SORT_SCHEME)


_META: Final = tuple(
    _Slot(name, name, *((dict, dict) if name == "entry_params" else ()))
    for name in manifests.ManifestMeta.__dataclass_fields__
    if name != "extra"
)


def _write_meta(value: manifests.ManifestMeta) -> Any:
    return _write(value, _META, sparse=True)


def _read_meta(tree: Tree) -> Any:
    return _read(manifests.ManifestMeta, tree, _META)


_ENTRY: Final = (
    _Slot("url", "url"),
    _Slot("uri", "uri"),
    _Slot("meta", "meta", _write_meta, _read_meta),
    _Slot("mandatory", "mandatory"),
    _Slot("id", "id"),
)


def _write_entry(value: manifests.ManifestEntry) -> Any:
    tree = _write(value, _ENTRY, sparse=True)
    if value.uri is not None:
        del tree["url"]
    return tree


def _read_entry(tree: Tree) -> Any:
    url = tree.get("url") or tree.get("uri")
    return _read(manifests.ManifestEntry, tree, _ENTRY, url=url)


_MANIFEST: Final = (
    _Slot("id", "id"),
    _Slot("meta", "meta", _write_meta, _read_meta),
    _Slot("entries", "entries", _many(_write_entry, list), _many(_read_entry, tuple)),
    _Slot("author", "author"),
)


def _write_manifest(value: manifests.Manifest) -> Any:
    tree = _write(value, _MANIFEST)
    if value.author is None:
        del tree["author"]
    return tree


def _read_manifest(tree: Tree) -> Any:
    return _read(manifests.Manifest, tree, _MANIFEST)


_PROPERTIES: Final = _Slot("properties", "properties", dict)
_ANCESTORS: Final = _Slot("ancestor_ids", "ancestor_ids", list, tuple)
_NATIVE: Final = _Slot("native_object", "nativeObject")
_CONTENT_TYPES: Final = _Slot("content_types", "contentTypes", list, tuple)
_STREAM_SCHEME: Final = _Slot(
    "partition_scheme", "partitionScheme", _write_partition_scheme, _read_partition_scheme
)


def _schema_bytes(schema: schemas.Schema) -> bytes:
    return schema.serialized


_SLOTS: Final[dict[type, tuple[_Slot, ...]]] = {
    records.Namespace: (_PROPERTIES, _ANCESTORS, _Slot("id", "id")),
    records.Table: (
        _Slot("description", "description"),
        _PROPERTIES,
        _Slot("latest_active_table_version", "latest_active_table_version"),
        _Slot("latest_table_version", "latest_table_version"),
        _NATIVE,
        _ANCESTORS,
        _Slot("id", "id"),
    ),
    records.TableVersion: (
        _Slot("schema", "schema", _schema_bytes, schemas.Schema),
        _Slot("schemas", "schemas", _many(_schema_bytes, list), _many(schemas.Schema, tuple)),
        _STREAM_SCHEME,
        _Slot(
            "partition_schemes",
            "partitionSchemes",
            _many(_write_partition_scheme, list),
            _many(_read_partition_scheme, tuple),
        ),
        _Slot("sort_scheme", "sortScheme", _write_sort_scheme, _read_sort_scheme),
        _Slot(
            "sort_schemes",
            "sortSchemes",
            _many(_write_sort_scheme, list),
            _many(_read_sort_scheme, tuple),
        ),
        _Slot("description", "description"),
        _PROPERTIES,
        _CONTENT_TYPES,
        _Slot("watermark", "watermark"),
        _Slot("state", "state", str, states.LifecycleState),
        _Slot("previous_table_version", "previous_table_version"),
        _NATIVE,
        _ANCESTORS,
    ),
    records.Stream: (
        _STREAM_SCHEME,
        _Slot("state", "state", str, states.CommitState),
        _Slot("previous_stream_id", "previousStreamId"),
        _Slot("watermark", "watermark"),
        _NATIVE,
        _ANCESTORS,
    ),
    records.Partition: (
        _CONTENT_TYPES,
        _Slot("state", "state", str, states.CommitState),
        _Slot("previous_stream_position", "previousStreamPosition"),
        _Slot("previous_partition_id", "previousPartitionId"),
        _Slot("stream_position", "streamPosition"),
        _Slot("partition_scheme_id", "partitionSchemeId"),
        _Slot("compaction_round_completion_info", "compactionRoundCompletionInfo"),
        _ANCESTORS,
    ),
    records.Delta: (
        _Slot("type", "type", str, states.DeltaType),
        _Slot("meta", "meta", _write_meta, _read_meta),
        _PROPERTIES,
        _Slot("manifest", "manifest", _write_manifest, _read_manifest),
        _Slot("previous_stream_position", "previousStreamPosition"),
        _ANCESTORS,
    ),
}

_LOCATOR_KEYS: Final[dict[type, str]] = {
    records.Table: "tableLocator",
    records.Namespace: "namespaceLocator",
    records.TableVersion: "tableVersionLocator",
    records.Partition: "partitionLocator",
    records.Stream: "streamLocator",
    records.Delta: "deltaLocator",
}


def locator_tree(locator: locators.Locator) -> dict[str, Any]:
    """Write a locator as the storage model nests it."""
    match locator:
        case locators.NamespaceLocator(name):
            return {"namespace": name}
        case locators.TableLocator(parent, name):
            return {"namespaceLocator": locator_tree(parent), "tableName": name}
        case locators.TableVersionLocator(parent, version):
            return {"tableLocator": locator_tree(parent), "tableVersion": version}
        case locators.StreamLocator(parent, stream_id, stream_format):
            tree = locator_tree(parent)
            return {"tableVersionLocator": tree, "streamId": stream_id, "format": stream_format}
        case locators.PartitionLocator(parent, values, partition_id):
            listed = None if values is None else list(values)
            tree = locator_tree(parent)
            return {"streamLocator": tree, "partitionValues": listed, "partitionId": partition_id}
        case locators.DeltaLocator(parent, position):
            return {"partitionLocator": locator_tree(parent), "streamPosition": position}


def _locator(kind: type, tree: Tree) -> Any:
    match kind:
        case records.Namespace:
            return locators.NamespaceLocator(tree["namespace"])
        case records.Table:
            parent = _locator(records.Namespace, tree["namespaceLocator"])
            return locators.TableLocator(parent, tree["tableName"])
        case records.TableVersion:
            parent = _locator(records.Table, tree["tableLocator"])
            return locators.TableVersionLocator(parent, tree["tableVersion"])
        case records.Stream:
            parent = _locator(records.TableVersion, tree["tableVersionLocator"])
            return locators.StreamLocator(parent, tree["streamId"], tree["format"])
        case records.Partition:
            parent = _locator(records.Stream, tree["streamLocator"])
            values = tuple(tree["partitionValues"]) if tree.get("partitionValues") else None
            return locators.PartitionLocator(parent, values, tree["partitionId"])
        case _:
            parent = _locator(records.Partition, tree["partitionLocator"])
            return locators.DeltaLocator(parent, tree["streamPosition"])


def encode(record: records.Record) -> bytes:
    """Write a record as the content of its revision file."""
    own_id = record.id
    if not isinstance(record, records.Namespace):
        table = record.name if isinstance(record, records.Table) else own_id
        record = with_names(record, own_id, table)
    tree = {_LOCATOR_KEYS[type(record)]: locator_tree(record.locator)}
    try:
        packed: bytes = msgpack.packb(tree | _write(record, _SLOTS[type(record)]))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"The {type(record).__name__} {own_id} cannot be stored",
            f"it holds a value that MessagePack does not have: {error}",
            "Use numbers, text, bytes, lists and maps",
        ) from error
    return packed


def decode(content: bytes, path: str = "a revision file") -> records.Record:
    """Read a record from the content of its revision file, with the names that are stored in it."""
    try:
        tree = msgpack.unpackb(content, strict_map_key=False)
        kind = next(kind for kind, key in _LOCATOR_KEYS.items() if key in tree)
        key = _LOCATOR_KEYS[kind]
        slots = (*_SLOTS[kind], _Slot("locator", key, read=lambda found: _locator(kind, found)))
        given = {"ancestor_ids": ()} if tree.get("ancestor_ids") is None else {}
        record: records.Record = _read(kind, tree, slots, **given)
    except LakerootError:
        raise
    except Exception as error:  # whatever a damaged file makes of the readers above
        raise InternalError(
            f"{path} cannot be read",
            f"it is damaged, or it is not a record of the storage model ({type(error).__name__})",
            "Restore the file from a copy, or delete the object it belongs to",
        ) from error
    return record


def with_names(record: Any, namespace: str, table: str | None = None) -> Any:
    """Give a record the names that its ancestors have now."""
    return replace(record, locator=_renamed(record.locator, namespace, table))


def _renamed(locator: Any, namespace: str, table: str | None) -> Any:
    match locator:
        case locators.NamespaceLocator():
            return locators.NamespaceLocator(namespace)
        case locators.TableLocator(parent, name):
            return locators.TableLocator(_renamed(parent, namespace, table), table or name)
        case _:
            return replace(locator, parent=_renamed(locator.parent, namespace, table))


def placed(record: Any, directory: str) -> Any:
    """Give a record the ids that its directory says; some writers leave them out of the file."""
    *ancestors, own = directory.split("/")
    if isinstance(record, records.Namespace | records.Table) and not record.id:
        record = replace(record, id=own)
    return replace(record, ancestor_ids=tuple(ancestors))
