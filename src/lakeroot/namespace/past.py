"""A catalog as it was: everything can be read, nothing can be changed.

Changes are refused before anything is written. The catalog underneath refuses commits too, but by
then a writer would have left data files in a table of the present.
"""

from collections.abc import Callable
from typing import Any, Final, NoReturn

from lakeroot.model.errors import UnsupportedOperationError
from lakeroot.namespace.base import LakerootNamespace
from lakeroot.namespace.border import ecosystem_error
from lakeroot.namespace.transaction import Transaction

CHANGES: Final = (
    "alter_table_add_columns",
    "alter_table_alter_columns",
    "alter_table_backfill_columns",
    "alter_table_drop_columns",
    "alter_transaction",
    "batch_commit_tables",
    "batch_create_table_versions",
    "batch_delete_table_versions",
    "create_empty_table",
    "create_materialized_view",
    "create_namespace",
    "create_table",
    "create_table_branch",
    "create_table_index",
    "create_table_scalar_index",
    "create_table_tag",
    "create_table_version",
    "declare_table",
    "delete_from_table",
    "delete_table_branch",
    "delete_table_tag",
    "deregister_table",
    "drop_namespace",
    "drop_table",
    "drop_table_index",
    "insert_into_table",
    "merge_insert_into_table",
    "refresh_materialized_view",
    "register_table",
    "rename_table",
    "restore_table",
    "update_field_metadata",
    "update_table",
    "update_table_schema_metadata",
    "update_table_tag",
)
"""The operations that change something."""


class PastNamespace(LakerootNamespace):
    """A catalog as it was at a moment; every table has the version it had then."""

    def transaction(self, message: str = "") -> Transaction:
        """Refuse to change the past."""
        _refuse()


def _refuse() -> NoReturn:
    raise ecosystem_error(
        UnsupportedOperationError(
            "The past cannot be changed", "this catalog is open as of an earlier time"
        )
    )


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        _refuse()

    refuse.__name__ = name
    refuse.__doc__ = "Refuse to change the past."
    return refuse


for _name in CHANGES:
    setattr(PastNamespace, _name, _refusal(_name))
