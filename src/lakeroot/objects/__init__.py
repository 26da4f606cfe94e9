"""Bytes under one root: a local directory or a bucket, behind one small contract."""

from lakeroot.objects.below import Below, delete_together, flush_together
from lakeroot.objects.contract import Listing, ObjectInfo, Objects, Streams
from lakeroot.objects.local import LocalObjects
from lakeroot.objects.roots import Root, open_root, parse_root

__all__ = [
    "Below",
    "Listing",
    "LocalObjects",
    "ObjectInfo",
    "Objects",
    "Root",
    "Streams",
    "delete_together",
    "flush_together",
    "open_root",
    "parse_root",
]
