"""The verbs of a catalog and what they mean, written once over every store."""

from lakeroot.catalog.catalog import Catalog

__all__ = ["Catalog"]
