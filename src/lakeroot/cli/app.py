"""The ``lakeroot`` command."""

import gc
import importlib
import sys
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from lakeroot import __version__
from lakeroot.cli.config import ProfileName, wants_colour
from lakeroot.cli.failing import EXIT_BAD_INPUT, report

_COMMANDS: Final = {
    "at": ("lakeroot.cli.looking:at", "Run a command on the catalog as it was at a moment."),
    "config": ("lakeroot.cli.config:config_group", "Show which catalogs are configured."),
    "copy": (
        "lakeroot.cli.copying:copy",
        "Copy namespaces and tables, with all versions and files, into the catalog TARGET.",
    ),
    "count": ("lakeroot.cli.looking:count", "Count the rows of a table."),
    "demo": ("lakeroot.cli.demo:demo", "Build a catalog of the flights of New York with Spark."),
    "diff": (
        "lakeroot.cli.looking:diff",
        "Tell what differs between two moments, or between one and now.",
    ),
    "fsck": (
        "lakeroot.cli.caring:fsck",
        "Find what is wrong with a catalog and its tables; repair what is safe to repair.",
    ),
    "gc": (
        "lakeroot.cli.caring:gc",
        "Delete what nothing in the catalog can reach: leftovers, orphans, files of the far past.",
    ),
    "grant": (
        "lakeroot.cli.access:grant_group",
        "Say who may do what: roles on namespaces and tables.",
    ),
    "head": ("lakeroot.cli.looking:head", "Show the first rows of a table."),
    "history": (
        "lakeroot.cli.looking:history",
        "Tell what each commit of the catalog changed, the newest first.",
    ),
    "index": ("lakeroot.cli.inside:index_group", "Build, list and drop indexes of a table."),
    "job": (
        "lakeroot.cli.metastore_jobs:job_group",
        "Run a job on Spark over a table: change its rows, put it in shape, take it elsewhere.",
    ),
    "ls": (
        "lakeroot.cli.looking:ls",
        "List the namespaces and tables of a namespace, or of the root.",
    ),
    "migrate": (
        "lakeroot.cli.caring:migrate",
        "Give every V1 table a row of the manifest, all in one commit; nothing moves.",
    ),
    "ns": ("lakeroot.cli.naming:namespace_group", "Create, show and drop namespaces."),
    "optimize": (
        "lakeroot.cli.caring:optimize",
        "Fold the manifest into one data file and index it, for clients that scan it.",
    ),
    "run": (
        "lakeroot.cli.sparking:run",
        "Run the pipeline of a YAML file: all its tables are published in one commit, or none.",
    ),
    "schema": ("lakeroot.cli.looking:schema", "Show the columns of a table."),
    "search": (
        "lakeroot.cli.looking:search",
        "Find rows by text, or by a vector written as JSON: '[0.1, 0.2]'.",
    ),
    "serve": (
        "lakeroot.cli.serving:serve",
        "Serve a catalog as Lance REST, as Iceberg REST, and to people in a console.",
    ),
    "show": ("lakeroot.cli.looking:show_table", "Show what is known of a table."),
    "sql": (
        "lakeroot.cli.sparking:sql",
        "Run a SQL statement over the catalog with Spark: SELECT … FROM lake.air.flights.",
    ),
    "sync": ("lakeroot.cli.copying:sync", "Make the catalog TARGET say what this one says."),
    "table": ("lakeroot.cli.naming:table_group", "Create, name, rename, copy and drop tables."),
    "tag": ("lakeroot.cli.inside:tag_group", "Name versions of a table."),
    "token": (
        "lakeroot.cli.access:token_group",
        "Make, list and revoke the tokens of a server; only their hashes are kept.",
    ),
    "undo": (
        "lakeroot.cli.undoing:undo",
        "Take COMMIT, a version of the catalog, back by a commit of its own.",
    ),
    "undrop": (
        "lakeroot.cli.undoing:undrop",
        "Give TABLE its name back; without one, list the tables that can have theirs back.",
    ),
    "version": (
        "lakeroot.cli.inside:version_group",
        "List, show, restore and delete versions of a table.",
    ),
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
        module, _, name = _COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        _take_common_options(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with what they do, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, what) for name, (_, what) in sorted(_COMMANDS.items())])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Offer commands, without importing any, and options."""
        offered = [
            CompletionItem(name, help=what)
            for name, (_, what) in sorted(_COMMANDS.items())
            if name.startswith(incomplete)
        ]
        return offered + click.Command.shell_complete(self, ctx, incomplete)

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


_FORMS: Final = click.Choice(["table", "json", "csv"])
_WHEN: Final = "Read the catalog as it was: a version or a time."


def _take_common_options(command: click.Command) -> None:
    """Let people write -o and --as-of after a command too, where they think of them."""
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            _take_common_options(inner)
        return
    if any(one.name == _LATER[0] for one in command.params):
        return
    for name, declared, kind, what in (
        (_LATER[0], ("-o", "--output"), _FORMS, "How to print the answer."),
        (_LATER[1], ("--as-of",), click.STRING, _WHEN),
    ):
        option = click.Option(
            [name, *declared],
            type=kind,
            metavar="WHEN" if kind is click.STRING else None,
            expose_value=False,
            callback=_remember,
            help=what,
        )
        command.params.append(option)


_LATER: Final = ("later_output", "later_as_of")


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    options = ctx.find_root().obj
    if value is not None and isinstance(options, dict) and param.name is not None:
        options[param.name.removeprefix("later_")] = value


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="lakeroot")
@click.option("-r", "--root", help="The catalog: a directory, a bucket or a URL.")
@click.option(
    "-p",
    "--profile",
    help="A catalog of the configuration file, by name.",
    type=ProfileName(),
)
@click.option(
    "-P", "--property", "properties", multiple=True, metavar="KEY=VALUE", help="A property of it."
)
@click.option("-o", "--output", type=_FORMS, help="How to print answers.")
@click.option("--as-of", metavar="WHEN", help=_WHEN)
@click.option(
    "--debug", is_flag=True, help="Show the traceback of an error, and all that Spark says."
)
@click.pass_context
def lakeroot(ctx: click.Context, /, **options: Any) -> None:
    """A catalog for Lance tables: a directory or a bucket is the catalog.

    Names are dotted, such as air.flights; a part that holds a dot is quoted: air."a.b".
    The catalog is --root, or LAKEROOT_ROOT, or a profile, or the current directory.
    """
    ctx.obj = options
    ctx.color = wants_colour()


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
    finally:
        # Python collects several times on its way out: a quarter of the time a light command takes.
        gc.freeze()
