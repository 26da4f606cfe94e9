"""Which catalog a command means: options, environment, profiles in a file."""

import os
from typing import Any

import click
from click.shell_completion import CompletionItem

from lakeroot.cli.output import print_rows, print_value
from lakeroot.lake.profiles import config_path, profile, profiles
from lakeroot.model.errors import InvalidInputError


def options_of(ctx: click.Context) -> dict[str, Any]:
    """Give the options before the command; a shell that completes has only parsed them."""
    root = ctx.find_root()
    return root.obj if isinstance(root.obj, dict) else root.params


def wants_colour() -> bool | None:
    """Say no if the person says no; otherwise it depends on what the output is (see NO_COLOR)."""
    return False if os.environ.get("NO_COLOR") else None


def chosen(options: dict[str, Any], *, ambient: bool = True) -> tuple[str, dict[str, str]]:
    """Work out the address of the catalog and its properties.

    What the environment says is about the catalog of the command, not about a second one.
    """
    properties: dict[str, str] = {}
    name = options.get("profile") or (os.environ.get("LAKEROOT_PROFILE") if ambient else None)
    if name:
        properties |= profile(name)
    for given in options.get("properties") or ():
        key, equals, value = given.partition("=")
        if not equals or not key:
            raise InvalidInputError(f"{given!r} is not a property", fix="Write KEY=VALUE")
        properties[key] = value
    root = options.get("root") or properties.pop("root", None)
    return root or os.environ.get("LAKEROOT_ROOT") or ".", properties


class ProfileName(click.ParamType[str]):
    """The name of a profile, completed from those there are."""

    name = "profile"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Offer the profiles that begin like this."""
        try:
            return [CompletionItem(name) for name in profiles() if name.startswith(incomplete)]
        except InvalidInputError:  # a shell that completes must not be shown errors
            return []


@click.group("config")
def config_group() -> None:
    """Show which catalogs are configured."""


@config_group.command("list")
@click.pass_context
def list_profiles(ctx: click.Context) -> None:
    """List the profiles and where their catalogs are; never credentials."""
    rows = [(name, one.get("root", "")) for name, one in sorted(profiles().items())]
    print_rows(ctx, ["profile", "root"], rows)


@config_group.command("path")
@click.pass_context
def show_path(ctx: click.Context) -> None:
    """Print the place of the configuration file."""
    print_value(ctx, "path", str(config_path()))
