"""Parts of docs/trust.md that a program writes: they stand between two comments."""

from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "trust.md"


def section(name: str, page: str | None = None) -> str:
    """Read a part of the page."""
    begin, end = _marks(name)
    text = PAGE.read_text(encoding="utf-8") if page is None else page
    return text.partition(begin)[2].partition(end)[0].strip("\n")


def put_section(name: str, text: str) -> None:
    """Write a part of the page anew."""
    begin, end = _marks(name)
    before, found, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    _, also, after = rest.partition(end)
    if not found or not also:
        raise ValueError(f"{PAGE} has no part {name}")
    PAGE.write_text(f"{before}{begin}\n{text.strip()}\n{end}{after}", encoding="utf-8")


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
