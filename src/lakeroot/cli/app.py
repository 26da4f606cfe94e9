"""The ``lakeroot`` command."""

import importlib
import sys
from typing import Any, Final

import click

from lakeroot import __version__
from lakeroot.cli.failing import EXIT_BAD_INPUT, report

_COMMANDS: Final = {
    "config": "lakeroot.cli.config:config_group",
    "copy": "lakeroot.cli.copying:copy",
    "count": "lakeroot.cli.looking:count",
    "demo": "lakeroot.cli.demo:demo",
    "diff": "lakeroot.cli.looking:diff",
    "fsck": "lakeroot.cli.caring:fsck",
    "gc": "lakeroot.cli.caring:gc",
    "head": "lakeroot.cli.looking:head",
    "history": "lakeroot.cli.looking:history",
    "index": "lakeroot.cli.inside:index_group",
    "job": "lakeroot.cli.sparking:job_group",
    "ls": "lakeroot.cli.looking:ls",
    "migrate": "lakeroot.cli.caring:migrate",
    "ns": "lakeroot.cli.naming:namespace_group",
    "optimize": "lakeroot.cli.caring:optimize",
    "run": "lakeroot.cli.sparking:run",
    "schema": "lakeroot.cli.looking:schema",
    "search": "lakeroot.cli.looking:search",
    "serve": "lakeroot.cli.serving:serve",
    "show": "lakeroot.cli.looking:show_table",
    "sql": "lakeroot.cli.sparking:sql",
    "sync": "lakeroot.cli.copying:sync",
    "table": "lakeroot.cli.naming:table_group",
    "tag": "lakeroot.cli.inside:tag_group",
    "undo": "lakeroot.cli.undoing:undo",
    "undrop": "lakeroot.cli.undoing:undrop",
    "version": "lakeroot.cli.inside:version_group",
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; suggest the nearest for one that does not exist."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            near = difflib.get_close_matches(args[0], _COMMANDS, n=1) if args else []
            if not near:
                raise
            raise click.UsageError(f"{error.message} Did you mean `{near[0]}`?", ctx) from None


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="lakeroot")
@click.option("-r", "--root", help="The catalog: a directory, a bucket or a URL.")
@click.option("-p", "--profile", help="A catalog of the configuration file, by name.")
@click.option(
    "-P", "--property", "properties", multiple=True, metavar="KEY=VALUE", help="A property of it."
)
@click.option(
    "-o", "--output", type=click.Choice(["table", "json", "csv"]), help="How to print answers."
)
@click.option("--as-of", metavar="WHEN", help="Read the catalog as it was: a version or a time.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def lakeroot(ctx: click.Context, /, **options: Any) -> None:
    """A catalog for Lance tables: a directory or a bucket is the catalog.

    Names are dotted, such as air.flights; a part that holds a dot is quoted: air."a.b".
    The catalog is --root, or LAKEROOT_ROOT, or a profile, or the current directory.
    """
    ctx.obj = options


def main(arguments: list[str] | None = None) -> None:
    """Run the command and leave with its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        # Outside its standalone mode click gives the exit code back instead of leaving with it.
        code = lakeroot.main(args=arguments, standalone_mode=False, prog_name="lakeroot")
        if isinstance(code, int):
            sys.exit(code)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(EXIT_BAD_INPUT)
    except BrokenPipeError:
        sys.exit(0)
    except Exception as error:  # noqa: BLE001 (the last border: a person reads what comes out)
        sys.exit(report(error, debug="--debug" in arguments))
