"""The catalog of a command."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from lakeroot.cli.config import chosen, options_of
from lakeroot.lake import Lake, open_lake
from lakeroot.model.errors import InvalidInputError, UnsupportedOperationError
from lakeroot.model.identifiers import show
from lakeroot.objects import parse_root

if TYPE_CHECKING:
    from lakeroot.lake import LakeTable


def opened(ctx: click.Context, *, begins: bool = False) -> Lake:
    """Open the catalog, as of the moment that was asked for.

    Only a command that `begins` something may be given a directory that is not there yet: to any
    other a mistyped path would look like a catalog that is empty, and in the best order.
    """
    options = options_of(ctx)
    root, properties = chosen(options)
    lake = _opened(root, tuple(sorted(properties.items())))
    place = _missing_directory(root)
    if place is not None and (options.get("as_of") or not begins):
        raise InvalidInputError(
            f"There is no catalog at {place}",
            "there is no such directory",
            "Check the path; creating a namespace or a table there begins a new catalog",
        )
    return lake.at(options["as_of"]) if options.get("as_of") else lake


def opened_to_list(ctx: click.Context) -> Lake:
    """Open the catalog for a list of all there is: of one that was never begun, that is nothing.

    The list stays as it is for scripts; people are told beside it, for it may be a typo.
    """
    lake = opened(ctx, begins=True)
    place = _missing_directory(chosen(options_of(ctx))[0])
    if place is not None:
        click.echo(f"There is no catalog at {place} yet.", err=True)
    return lake


def _missing_directory(root: str) -> Path | None:
    """Give the directory of this machine that an address names, if it is not there."""
    if "://" in root and not root.lower().startswith("file://"):
        return None
    place = Path(parse_root(root).uri)
    try:
        place.stat()
    except (FileNotFoundError, NotADirectoryError):
        return place
    except OSError:  # It may well be there: whoever opens it says what is in the way.
        return None
    return None


@cache
def _opened(root: str, properties: tuple[tuple[str, str], ...]) -> Lake:
    return open_lake(root, **dict(properties))


def opened_now(ctx: click.Context, fix: str, *, begins: bool = False) -> Lake:
    """Open the catalog for work that knows no past."""
    if options_of(ctx).get("as_of"):
        raise UnsupportedOperationError(
            "This command knows only the catalog as it is now", "--as-of was given", fix
        )
    return opened(ctx, begins=begins)


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
