"""Checkpoints: the index as of one commit, so that opening a catalog need not read its log."""

from typing import Any, Final

import msgpack
import pyarrow as pa

from lakeroot.metastore import naming
from lakeroot.metastore.entries import seal, unseal
from lakeroot.metastore.index import Chain, Index, Mark, Revision
from lakeroot.metastore.naming import Layout
from lakeroot.objects import Objects

_CODEC: Final = "zstd"


def write_checkpoint(objects: Objects, index: Index) -> None:
    """Write a checkpoint of the index, then point to it. Either may be lost without harm."""
    path = naming.checkpoint_path(index.head)
    objects.put(path, encode_index(index))
    objects.put(naming.LATEST_CHECKPOINT, seal({"sequence": index.head}))


def read_checkpoint(objects: Objects) -> Index | None:
    """Read the newest checkpoint that is whole; nothing if there is none."""
    pointer = unseal(objects.get(naming.LATEST_CHECKPOINT))
    if pointer is not None:
        index = decode_index(objects.get(naming.checkpoint_path(pointer["sequence"])))
        if index is not None:
            return index
    listing = objects.list_directory(naming.CHECKPOINTS).objects
    paths = [info.path for info in listing if info.path != naming.LATEST_CHECKPOINT]
    for path in sorted(paths, reverse=True):
        index = decode_index(objects.get(path))
        if index is not None:
            return index
    return None


def encode_index(index: Index) -> bytes:
    """Write an index, compressed."""
    tree = {
        "layout": index.layout.value,
        "head": index.head,
        "horizon": index.horizon,
        "marks": [[sequence, *mark] for sequence, mark in index.marks.items()],
        "objects": {path: _chain_tree(chain) for path, chain in index.objects.items()},
        "names": {path: _chain_tree(chain) for path, chain in index.names.items()},
        "fenced": sorted(index.fenced),
        "last_end_time": index.last_end_time,
    }
    packed = msgpack.packb(tree)
    compressed = pa.Codec(_CODEC, compression_level=1).compress(packed, asbytes=True)
    return seal([len(packed), compressed])


def decode_index(data: bytes | None) -> Index | None:
    """Read an index; nothing if it is missing or damaged."""
    outer = unseal(data)
    if outer is None:
        return None
    size, compressed = outer
    packed = pa.Codec(_CODEC).decompress(compressed, size, asbytes=True)
    return _index(msgpack.unpackb(packed, strict_map_key=False))


def _index(tree: Any) -> Index:
    index = Index(Layout(tree["layout"]))
    index.fill({path: _chain(chain) for path, chain in tree["objects"].items()}, tree["head"])
    index.horizon = tree["horizon"]
    index.marks = {sequence: Mark(txn, end) for sequence, txn, end in tree["marks"]}
    index.sequences = {mark.txn_id: sequence for sequence, mark in index.marks.items()}
    index.names = {path: _chain(chain) for path, chain in tree["names"].items()}
    index.fenced = set(tree["fenced"])
    index.last_end_time = tree["last_end_time"]
    return index


def _chain_tree(chain: Chain) -> list[list[Any]]:
    # Only the newest content is worth carrying: listings read it, time travel reads files.
    return [list(revision[:6]) for revision in chain[:-1]] + [list(chain[-1])]


def _chain(tree: list[list[Any]]) -> Chain:
    return [Revision(*revision) for revision in tree]
