"""The catalog of a command."""

from functools import cache
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from lakeroot.cli.config import chosen, options_of
from lakeroot.lake import Lake, open_lake
from lakeroot.model.errors import UnsupportedOperationError
from lakeroot.model.identifiers import show

if TYPE_CHECKING:
    from lakeroot.lake import LakeTable


def opened(ctx: click.Context) -> Lake:
    """Open the catalog, as of the moment that was asked for."""
    options = options_of(ctx)
    root, properties = chosen(options)
    lake = _opened(root, tuple(sorted(properties.items())))
    return lake.at(options["as_of"]) if options.get("as_of") else lake


@cache
def _opened(root: str, properties: tuple[tuple[str, str], ...]) -> Lake:
    return open_lake(root, **dict(properties))


def opened_now(ctx: click.Context, fix: str) -> Lake:
    """Open the catalog for work that knows no past."""
    if options_of(ctx).get("as_of"):
        raise UnsupportedOperationError(
            "This command knows only the catalog as it is now", "--as-of was given", fix
        )
    return opened(ctx)


def table_of(ctx: click.Context, name: str) -> "LakeTable":
    """Find a table; the nearest name is suggested for one that does not exist."""
    return opened(ctx)[name]


class TableName(click.ParamType[str]):
    """The name of a table, completed from those there are."""

    name = "table"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Offer the tables that begin like this."""
        return _completed(ctx, incomplete, lambda lake: lake.tables())


class NamespaceName(click.ParamType[str]):
    """The name of a namespace, completed from those there are."""

    name = "namespace"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Offer the namespaces that begin like this."""
        parent = incomplete.rpartition(".")[0]
        return _completed(ctx, incomplete, lambda lake: lake.namespaces(parent))


def _completed(ctx: click.Context, incomplete: str, names: Any) -> list[CompletionItem]:
    try:
        found = names(opened(ctx))
    except Exception:  # noqa: BLE001 (a shell that completes must not be shown errors)
        return []
    return [CompletionItem(name) for name in found if name.startswith(incomplete)]


class TrashedName(click.ParamType[str]):
    """The name of a table that can have its name back."""

    name = "table"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Offer the names in the trash that begin like this."""
        return _completed(
            ctx, incomplete, lambda lake: [show(one.table.identifier) for one in lake.trash()]
        )


TABLE = TableName()
TRASHED = TrashedName()
NAMESPACE = NamespaceName()
