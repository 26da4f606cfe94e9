"""Write the lists of routes into docs/rest.md: `python -m tests.docs.routes`."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from lakeroot.server.iceberg.routes import ROUTES as ICEBERG
from lakeroot.server.lance.routes import ROUTES as LANCE

PAGE: Final = Path(__file__).parents[2] / "docs" / "rest.md"
_TABLE: Final = re.compile(r"(?<=\| route \| operation \| role \|\n\|---\|---\|---\|\n)(\| .*\n)*")


def with_routes(text: str) -> str:
    """Put the routes there are into the page, those of Lance REST before those of Iceberg REST."""
    tables = iter((_lines(LANCE), _lines(ICEBERG)))
    return _TABLE.sub(lambda _: next(tables), text, count=2)


def _lines(routes: Iterable[Any]) -> str:
    return "".join(
        f"| `{one.method} {one.path}` | {one.operation} | {one.role.name.lower()} |\n"
        for one in routes
    )


if __name__ == "__main__":
    PAGE.write_text(with_routes(PAGE.read_text()))
