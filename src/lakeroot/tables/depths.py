"""How deep an SQL expression is, and how much Lance makes of it.

Lance plans and computes an expression by recursion: one that is too deep overflows the stack of
its thread, which ends the process. Others are short and never end, because every level multiplies
the work: DataFusion writes twice what COALESCE and BETWEEN test, works twice on what a function is
given if it is called by its second name (LENGTH, POW), and the parser reads what follows CAST,
CASE, NOT and a few more a second time if it does not understand it at first.

The limits were measured with pylance 14, in processes of their own. Threads with stacks of 2 MB,
as those of its own runtime, overflow from some 300 postfix operators in a row (``b IS TRUE IS
TRUE``), sums of some 800 terms, and some 600 terms that AND joins in the argument of a function;
with 8 MB, the default of Linux, from about four times as many. Elsewhere Lance joins 20,000 terms
by AND or OR, and takes IN with 30,000 values, without going deeper. Brackets, functions and unary
operators are refused by the parser itself below some 45 levels. Of what doubles the work, twelve
levels take 0.05 s and twenty of them a minute; of COALESCE nine take 0.1 s, and fourteen 5 s.
"""

import re
from collections.abc import Iterator
from typing import Final

from lakeroot.model.errors import InvalidInputError

DEEPEST: Final = 256
"""Words and signs on the way to the innermost part: 128 terms of a sum. Half of the least stack."""
_MOST_WORK: Final = 1 << 15
_MOST_TIMES: Final = 8
"""What may come of an expression, in words and signs, and of a long one for each of its own."""
_SHORT: Final = 48
"""Nothing as short as this can be too deep, or too much."""

# A sign of another alphabet may be a letter for Lance and none for Python, or the reverse.
_WORD: Final = r"(?:[A-Za-z_@#]|[^\x00-\x7f\s])(?:[\w$@#]|[^\x00-\x7f\s])*"
OPAQUE: Final = re.compile(
    r"""'[^']*(?:''[^']*)*(?:'|\Z)"""
    r"""|"[^"]*(?:""[^"]*)*(?:"|\Z)"""
    r"""|`[^`]*(?:``[^`]*)*(?:`|\Z)"""
    r"""|\$(\w*)\$.*?(?:\$\1\$|\Z)"""
    r"""|--[^\n]*|/\*.*?(?:\*/|\Z)"""
    rf"""|(?P<word>{_WORD})""",
    re.DOTALL,
)
"""What hides other signs: texts, quoted names, comments and words, which may have a ``$`` inside.

What is not closed ends with the expression; Lance refuses it.
"""
_TOKEN: Final = re.compile(
    OPAQUE.pattern
    + r"""|(?P<number>\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"""
    + r"""|(?P<sign>\|\||::|[<>=!]=|<>|\S)""",
    re.DOTALL,
)
_CLOSES: Final = {"(": ")", "[": "]", "{": "}"}
_JOINS: Final = frozenset({"and", "or"})
_BRANCHES: Final = frozenset({"when", "then", "else"})
_OPERATORS: Final = frozenset(
    {
        "as", "between", "collate", "div", "escape", "from", "glob", "ilike", "in", "interval",
        "is", "like", "match", "not", "of", "overlaps", "regexp", "rlike", "similar", "to", "xor",
        "zone",
    }
)  # fmt: skip
_SPECIAL: Final = frozenset({*",()[]{}", "case", "end"}) | _JOINS | _BRANCHES | _OPERATORS
_AGAIN: Final = {"coalesce": 3, "ifnull": 3, "nvl": 3, "position": 4}
"""How often what a function is given is worked on; twice, if it is not known to be once."""
_ONCE: Final = _SPECIAL | {
    "abs", "array_append", "array_concat", "array_distinct", "array_remove", "array_sort", "btrim",
    "cbrt", "character_length", "concat", "concat_ws", "cos", "date_trunc", "exp", "flatten",
    "gcd", "greatest", "initcap", "lcm", "least", "left", "ln", "log10", "lower", "lpad", "ltrim",
    "make_array", "md5", "named_struct", "nanvl", "nullif", "power", "regexp_replace", "replace",
    "reverse", "right", "round", "rpad", "rtrim", "signum", "sin", "split_part", "sqrt", "struct",
    "to_timestamp", "translate", "trunc", "upper",
}  # fmt: skip


def check_depth(expression: str) -> None:
    """Refuse an expression that ends the process inside of Lance, or keeps it busy for ever."""
    if len(expression) > _SHORT:
        _Reader(expression).read()


class _Level:
    """What is read of one pair of brackets, or of one CASE: the terms before, and the last."""

    __slots__ = (
        "betweens", "closed_by", "deepest", "inner", "is_computed", "joins", "term", "times",
        "times_term", "work", "work_term",
    )  # fmt: skip

    def __init__(self, closed_by: str, times: int, *, is_computed: bool) -> None:
        self.closed_by = closed_by
        self.times = times
        # Inside of functions, Lance leaves it to DataFusion to read AND and OR: one in another.
        self.is_computed = is_computed
        self.deepest = self.joins = self.work = 0
        self.term = self.inner = self.work_term = self.betweens = 0
        self.times_term = 1

    def end_term(self) -> None:
        self.deepest = max(self.deepest, self.term + self.inner)
        self.work += self.work_term * self.times_term
        self.term = self.inner = self.work_term = self.betweens = 0
        self.times_term = 1


class _Reader:
    """Reads words and signs as Lance does, and adds them up along the brackets."""

    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._level = _Level("", 1, is_computed=False)
        self._outer: list[_Level] = []
        # A keyword where a value is expected is the name of a column: Lance takes it for one.
        self._after_value = False
        self._before = ""

    def read(self) -> None:
        parts = list(_tokens(self._expression))
        for place, part in enumerate(parts, 1):
            if part in _SPECIAL:
                self._special(part, parts[place] if place < len(parts) else "")
            else:
                self._count()
                self._after_value = _is_value(part)
            self._before = part
        while self._outer:
            self._close()
        self._level.end_term()
        if self._level.deepest > DEEPEST:
            raise self._too_deep()
        if self._level.work > max(_MOST_WORK, _MOST_TIMES * len(parts)):
            raise self._too_much()

    def _count(self) -> None:
        level = self._level
        level.term += 1
        level.work_term += 1
        if level.term + level.inner + len(self._outer) > DEEPEST:
            raise self._too_deep()

    def _special(self, part: str, following: str) -> None:
        level = self._level
        if part == ",":
            level.end_term()
            self._after_value = False
            return
        if self._after_value and part in _JOINS:
            self._after_value = False
            if part == "and" and level.betweens:
                level.betweens -= 1
                self._count()
            else:
                level.end_term()
                level.joins += level.is_computed
            return
        begins = self._after_value or self._before == "case"
        if part in _BRANCHES and begins and level.closed_by == "end":
            level.end_term()
            self._after_value = False
            return
        self._count()
        if part in _CLOSES:
            self._open(_CLOSES[part], self._times(), is_call=self._is_call())
        elif part in (")", "]", "}", "end"):
            self._close_up_to(part)
            self._after_value = True
        elif part == "case" and not self._after_value and _may_begin(following):
            self._open("end", 2, is_call=True)
        elif part in _OPERATORS and (self._after_value or part in ("not", "interval")):
            self._operator(part)
        else:
            self._after_value = True

    def _operator(self, part: str) -> None:
        level = self._level
        if part == "between":
            level.betweens += 1
            level.times_term *= 2
        elif part == "interval" or (
            part == "not" and not self._after_value and self._before != "is"
        ):
            level.times_term *= 2
        self._after_value = False

    def _times(self) -> int:
        """Tell how often what is in a bracket that opens here is worked on."""
        name = self._before.removeprefix("'")
        return _AGAIN.get(name, 1 if name in _ONCE or not _is_value(name) else 2)

    def _is_call(self) -> bool:
        """Tell whether a bracket that opens here belongs to a function, or to IN and the like."""
        before = self._before
        return _is_value(before) and before not in _JOINS and before != "not"

    def _open(self, closed_by: str, times: int, *, is_call: bool) -> None:
        self._outer.append(self._level)
        self._level = _Level(closed_by, times, is_computed=is_call or self._level.is_computed)
        self._after_value = False

    def _close_up_to(self, closed_by: str) -> None:
        if closed_by == "end":
            if self._level.closed_by == "end":
                self._close()
        elif any(level.closed_by == closed_by for level in [self._level, *self._outer]):
            # A CASE without its END was none.
            while self._level.closed_by != closed_by:
                self._close()
            self._close()

    def _close(self) -> None:
        closed, level = self._level, self._outer.pop()
        closed.end_term()
        level.inner = max(level.inner, closed.deepest + closed.joins)
        level.work_term += closed.work * closed.times
        self._level = level

    def _too_deep(self) -> InvalidInputError:
        return InvalidInputError(
            f"The expression {_shown(self._expression)} is too deep",
            f"a part of it needs more than {DEEPEST} words and signs, which may end the process "
            "inside of Lance",
            "Compute a part of it as a column first; terms that AND, OR or commas divide count "
            "for themselves",
        )

    def _too_much(self) -> InvalidInputError:
        return InvalidInputError(
            f"The expression {_shown(self._expression)} is nested too deeply",
            "each COALESCE, BETWEEN, CAST, CASE, NOT and many a function around another doubles "
            "what Lance has to do",
            "Nest fewer of them; COALESCE takes any number of values",
        )


def _tokens(expression: str) -> Iterator[str]:
    """Find the words and signs, in lower case; what is quoted begins with a quote."""
    for found in _TOKEN.finditer(expression):
        kind = found.lastgroup
        if kind is not None:
            yield found[0].lower()
        elif found[0][0] == "`":
            # The name of a function may be quoted, and that of a column is no keyword.
            yield f"'{found[0].lower().strip('`')}"
        elif found[0][0] not in "-/":
            yield "'"


def _is_value(part: str) -> bool:
    """Tell words, numbers and what is quoted from signs."""
    first = part[:1]
    return first.isalnum() or first > "\x7f" or (first != "" and first in "_@#'")


def _may_begin(part: str) -> bool:
    """Tell whether a value may begin with this."""
    return _is_value(part) or part in ("(", "[", "{", "-", "+")


def _shown(expression: str) -> str:
    return repr(expression if len(expression) <= 60 else f"{expression[:57]}...")
