"""Cut an SQL statement at its keywords, leaving quotes and parentheses whole."""

import re
from collections.abc import Sequence

from lakeroot.model.errors import InvalidInputError

_TOKENS = r"""
      (?P<comment> --[^\n]* | /\*(?!\+).*?\*/ )  # what begins with a plus is a hint
    | (?P<quoted> '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | `(?:[^`]|``)*` )
    | (?P<open> [(\[{] ) | (?P<close> [)\]}] )
    | (?P<word> \w+ )
    | (?P<other> \s+ | . )
    """
_TOKEN = re.compile(_TOKENS, re.VERBOSE | re.DOTALL)
# Names with dots between them, as Spark reads them: any word is a name there, whatever else it
# means, and one may begin with a digit unless it is a number.
_PATH = r"""
    (?P<path>
      (?: `(?:[^`]|``)*` | \w*[^\W\d]\w* )
      (?: \s*\.\s* (?: `(?:[^`]|``)*` | (?! \d+ (?: E\d+ )? (?: D | F | BD )? \b ) \w+ ) )+
    )
    """
_NAMES = re.compile(rf"{_PATH} | {_TOKENS}", re.VERBOSE | re.DOTALL | re.IGNORECASE)
_IN_PARENTHESES = re.compile(r"\s*\((?P<inside>[^()]*)\)")
_ANGLES = {"<": 1, ">": -1}


class Statement:
    """A statement that is read from left to right, keyword by keyword.

    A word before or behind a dot is a name, and no spaces are left around the dots of names. With
    `types`, ``MAP<STRING, INT>`` is whole, as parentheses are.
    """

    def __init__(self, text: str, *, types: bool = False) -> None:
        self.text = closed_up(_without_comments(text)).strip().rstrip("; \t\r\n")
        # Each token: where it starts, the keyword it may be (only outside of parentheses), its end.
        self.tokens: list[tuple[int, str, int]] = []
        depth = cases = 0
        for match in _NAMES.finditer(self.text):
            depth += _deeper(match, types=types)
            after_dot = self.text.endswith(".", 0, match.start())
            if match.lastgroup != "word" or depth or after_dot:
                continue
            word = match.group().upper()
            # A CASE has a WHEN and a THEN of its own, up to its END.
            if word == "CASE":
                cases += 1
            elif word == "END" and cases:
                cases -= 1
            elif not cases:
                self.tokens.append((match.start(), word, match.end()))
        self.position = 0

    def peek(self, *words: str) -> bool:
        """Tell whether these keywords come next."""
        return self._after(words) is not None

    def _after(self, words: Sequence[str]) -> int | None:
        at = self.position
        for word in words:
            while self.text[at : at + 1].isspace():
                at += 1
            found = next((token for token in self.tokens if token[0] == at), None)
            if found is None or found[1] != word:
                return None
            at = found[2]
        return at

    def take(self, *words: str) -> bool:
        """Go past these keywords, if they come next."""
        at = self._after(words)
        if at is None:
            return False
        self.position = at
        return True

    def take_options(self) -> str | None:
        """Go past ``WITH (options)`` and give the options, if they come next: a query may, too."""
        at = self._after(("WITH",))
        found = None if at is None else _IN_PARENTHESES.match(self.text, at)
        if found is None:
            return None
        self.position = found.end()
        return found.group("inside")

    def expect(self, *words: str) -> None:
        """Go past these keywords, or say that they are missing."""
        if not self.take(*words):
            rest = self.text[self.position : self.position + 30].strip() or "the end"
            raise InvalidInputError(
                f"The statement cannot be read at {rest!r}", f"{' '.join(words)} should be there"
            )

    def until(self, *stops: tuple[str, ...]) -> str:
        """Return the text up to the first of these groups of keywords, or to the end."""
        start = self.position
        for token_start, _, _ in self.tokens:
            if token_start < start:
                continue
            self.position = token_start
            if any(self.peek(*stop) for stop in stops):
                return self.text[start:token_start].strip()
        self.position = len(self.text)
        return self.text[start:].strip()

    @property
    def finished(self) -> bool:
        """Tell whether nothing is left."""
        return not self.text[self.position :].strip()


def _without_comments(text: str) -> str:
    """Leave out comments, which may stand between any two words."""
    return "".join(
        " " if match.lastgroup == "comment" else match.group() for match in _TOKEN.finditer(text)
    )


def closed_up(text: str) -> str:
    """Leave out spaces around the dots of names."""
    return "".join(
        "".join(re.findall(r"`(?:[^`]|``)*`|\w+|\.", match.group()))
        if match.lastgroup == "path"
        else match.group()
        for match in _NAMES.finditer(text)
    )


def _deeper(match: re.Match[str], *, types: bool) -> int:
    """Count how much deeper inside of parentheses, or of a type, the text is behind a token."""
    if types and match.group() in _ANGLES:
        return _ANGLES[match.group()]
    return {"open": 1, "close": -1}.get(match.lastgroup or "", 0)


def split(text: str, separator: str = ",", *, types: bool = False) -> list[str]:
    """Split a list at its commas, outside of quotes and parentheses; of columns, also of types."""
    parts, depth, start = [], 0, 0
    for match in _TOKEN.finditer(text):
        depth += _deeper(match, types=types)
        if depth == 0 and match.group() == separator:
            parts.append(text[start : match.start()].strip())
            start = match.end()
    return [*parts, text[start:].strip()]


def settings(text: str) -> dict[str, str]:
    """Read ``a = 1, 'b' = 'x'``, as properties and options are written, with or without quotes."""
    found: dict[str, str] = {}
    for pair in split(text) if text.strip() else ():
        key, _, value = pair.partition("=" if "=" in pair else " ")
        found[key.strip(" '\"`")] = value.strip(" '\"")
    return found


def assignments(text: str, table: Sequence[str]) -> dict[str, str]:
    """Read ``a = 1, t.b = x`` as columns of a table, which has these names, and expressions."""
    found: dict[str, str] = {}
    for part in split(text):
        column, equals, value = part.partition("=")
        *owner, name = (unquoted(word) for word in split(column.strip(), "."))
        if not equals or not name or not value.strip():
            raise InvalidInputError(f"{part!r} does not set a column", fix="Write column = value")
        if not _ends_with(table, owner):
            raise InvalidInputError(
                f"{part!r} does not set a column of the table",
                f"the table is called {'.'.join(table)} here",
                f"Write {name} = value; a field of a struct is set with the whole struct",
            )
        if name in found:
            raise InvalidInputError(f"The column {name!r} is set twice")
        found[name] = value.strip()
    return found


def unquoted(word: str) -> str:
    """Give a name without its backticks; blanks inside of them are part of it."""
    bare = word.strip()
    is_quoted = len(bare) > 1 and bare[0] == bare[-1] == "`"
    return bare[1:-1].replace("``", "`") if is_quoted else bare


def _ends_with(names: Sequence[str], last: Sequence[str]) -> bool:
    """Compare names as SQL does, without upper and lower case."""
    whole = [name.lower() for name in names]
    return whole[len(whole) - len(last) :] == [name.lower() for name in last]
