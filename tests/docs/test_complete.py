"""The guides describe everything there is; what there is, is asked of the code."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest

import lakeroot
from lakeroot.cli.app import lakeroot as commands
from lakeroot.cli.failing import exit_code_of
from lakeroot.model import errors
from lakeroot.server.console.face import _TABLE_PAGES
from lakeroot.server.iceberg.routes import ROUTES as ICEBERG_ROUTES
from lakeroot.server.lance.face import STATUS_OF_CODE
from lakeroot.server.lance.routes import ROUTES as LANCE_ROUTES
from lakeroot.storage.iceberg_rest.config import _FREE, _KNOWN
from lakeroot.storage.lance_dir.checking.findings import KINDS
from tests.docs.routes import with_routes

DOCS = Path(__file__).parents[2] / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text()


def words_of(text: str) -> set[str]:
    """Give what is written in backticks."""
    return set(re.findall(r"`([^`\n]+)`", text))


def leaves(group: click.Group, path: str = "lakeroot") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaves(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def test_every_command_is_described() -> None:
    described = words_of(page("cli.md"))

    assert sorted(path for path, _ in leaves(commands) if path not in described) == []


def test_every_option_that_all_commands_share_is_described() -> None:
    text = page("cli.md")
    long = [opt for param in commands.params for opt in param.opts if opt.startswith("--")]

    assert [name for name in long if f"{name}`" not in text and f"{name} " not in text] == [
        "--property"
    ]
    assert "`-P KEY=VALUE`" in text


def known_properties(kind: type[Any]) -> list[str]:
    """Ask a catalog which properties it knows, by one that it does not."""
    with pytest.raises(Exception, match="Known") as refused:
        kind(root="memory://properties", zzzzzzzzzz="1")
    found = str(refused.value).partition("Known: ")[2].rstrip(".")
    return [name.strip() for name in found.split(",")]


@pytest.mark.parametrize(
    ("kind", "guide"),
    [
        (lakeroot.DirectoryNamespace, "directory.md"),
        (lakeroot.DeltaCatNamespace, "metastore.md"),
    ],
)
def test_every_property_of_a_catalog_is_described(kind: type[Any], guide: str) -> None:
    known = known_properties(kind)

    assert {"root", "storage.*"} <= set(known)
    assert [name for name in known if name not in words_of(page(guide))] == []


def test_every_property_of_an_iceberg_catalog_is_described() -> None:
    from lakeroot.namespace.iceberg import _OWN

    known = [*_KNOWN, *_OWN, *(f"{prefix}*" for prefix in _FREE)]

    assert sorted(name for name in known if name not in words_of(page("iceberg.md"))) == []


def test_every_route_is_described_with_the_role_it_needs() -> None:
    text = page("rest.md")

    assert text.count("\n| `") == len(LANCE_ROUTES) + len(ICEBERG_ROUTES)
    assert text == with_routes(text), "run `python -m tests.docs.routes`"


def test_every_page_of_the_console_is_described() -> None:
    described = words_of(page("console.md"))

    assert [p for p in _TABLE_PAGES if f"/console/t/<names>/{p}" not in described] == []


def every_error(kind: type[errors.LakerootError]) -> Iterator[type[errors.LakerootError]]:
    yield kind
    for one in kind.__subclasses__():
        if one.__module__ == errors.__name__:
            yield from every_error(one)


def test_every_error_code_is_described_as_it_is() -> None:
    names: dict[int, str] = {}
    # What is a kind of another error has that one's page, whatever it is derived from.
    for kind in sorted(every_error(errors.LakerootError), key=lambda one: len(one.__mro__)):
        if kind.__doc__ and "code" in vars(kind):
            names.setdefault(kind.code, kind.__name__.removesuffix("Error"))
    names[errors.InternalError.code] = "Internal"
    rows = re.findall(
        r"^\| (\d+) \| (\w+) \| (\d+) \| (\d+) \| .+ \| .+ \|$",
        page("troubleshooting.md"),
        re.MULTILINE,
    )

    assert {int(code): (name, int(http), int(leaves)) for code, name, http, leaves in rows} == {
        code: (name, STATUS_OF_CODE[code], exit_code_of(code)) for code, name in names.items()
    }


def test_every_exit_code_is_described() -> None:
    described = {int(code) for code in re.findall(r"^\| (\d+) \|", page("cli.md"), re.MULTILINE)}

    assert {0, 1, 130, *map(exit_code_of, STATUS_OF_CODE)} == described


def test_every_finding_is_described() -> None:
    assert [code for code in KINDS if f"| `{code}` |" not in page("fsck.md")] == []


def test_every_option_on_spark_is_described() -> None:
    from lakeroot import spark
    from lakeroot.spark import options
    from lakeroot.spark.pipelines import definition, job_kinds

    described = words_of(page("spark-options.md"))
    wanted = {options.camel(one.name) for one in fields(options.ReadOptions)}
    wanted |= {options.camel(one.name) for one in fields(options.WriteOptions)}
    wanted |= {*options._TABLE_OPTIONS, *(f"{prefix}*" for prefix in options._PREFIXES)}
    for name in spark.__all__:
        function = getattr(spark, name)
        if inspect.isfunction(function):
            wanted |= {name, *_keywords(function)}
    for kind in (definition.Pipeline, definition.Source, definition.Step, definition.Check):
        wanted |= {one.name for one in fields(kind)}
    wanted |= {*definition.MODES, *definition.CHECKS}
    for name, job in job_kinds.KINDS.items():
        wanted |= {name, *job.known}

    assert sorted(wanted - described) == []


def _keywords(function: Any) -> set[str]:
    parameters = inspect.signature(function).parameters.values()
    return {one.name for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY}


def test_every_guide_is_reached_from_the_readme() -> None:
    pages = {path.name: path.read_text() for path in DOCS.glob("*.md")}
    reached = set(re.findall(r"\(docs/([\w-]+\.md)", (DOCS.parent / "README.md").read_text()))
    for _ in pages:
        reached |= {
            link for name in reached for link in re.findall(r"\(([\w-]+\.md)", pages.get(name, ""))
        }

    assert sorted(set(pages) - reached) == []
