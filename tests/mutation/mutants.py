"""Small mistakes in a module: each is one change of its syntax tree, found by its number."""

import ast
import copy
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_SUMS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_WORDS_ONLY = ("Error", "warning", "debug", "getLogger", "show", "translated")
"""Calls whose arguments are words for people: what they say is not behaviour."""


@dataclass(frozen=True)
class Mutant:
    """One mistake: where it is, and what it does."""

    module: str
    function: str
    number: int
    line: int
    what: str
    digest: str
    """Of the function: as long as it is the same, what is known of the mistake holds."""
    text: str = ""
    """The line itself."""
    at_import: bool = False
    """The function makes constants: it runs when the module is imported, for every test."""

    @property
    def name(self) -> str:
        return f"{self.module}:{self.function}:{self.number}"


def mutants_of(module: str, source: str) -> list[Mutant]:
    """List every mistake that can be made in a module."""
    tree, lines, found = ast.parse(source), source.splitlines(), []
    early = _called_at_import(tree)
    for name, function in _functions(tree):
        digest = hashlib.sha256(ast.dump(function).encode()).hexdigest()[:16]
        for number, (node, what, _) in enumerate(_sites(function)):
            text = lines[node.lineno - 1].strip()
            own = (module, name, number, node.lineno, what, digest, text, name in early)
            found.append(Mutant(*own))
    return found


def _called_at_import(tree: ast.Module) -> set[str]:
    outside = [one for one in tree.body if not isinstance(one, ast.FunctionDef | ast.ClassDef)]
    calls = (node for one in outside for node in ast.walk(one) if isinstance(node, ast.Call))
    return {call.func.id for call in calls if isinstance(call.func, ast.Name)}


def mutated(source: str, function: str, number: int) -> ast.Module:
    """Make one mistake in a function of a module."""
    tree = ast.parse(source)
    _, _, change = list(_sites(dict(_functions(tree))[function]))[number]
    change()
    return ast.fix_missing_locations(tree)


def _sites(function: ast.FunctionDef) -> Iterator[tuple[Any, str, Any]]:
    for node in _behaviour(function):
        yield from _changes(node)


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Walk the outermost functions; constants of modules and dunder texts are left alone."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and part.name != "__repr__":
                    yield f"{node.name}.{part.name}", part


def _behaviour(node: ast.AST) -> Iterator[ast.AST]:
    """Walk what a function does: neither annotations nor words for people."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_comment", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_words(child):
                yield from _behaviour(child)


def _is_words(node: ast.AST) -> bool:
    if isinstance(node, ast.JoinedStr | ast.Raise):
        return True
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) or _is_words(node.value)
    if isinstance(node, ast.Call):
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        return name.endswith(_WORDS_ONLY)
    return False


def _changes(node: ast.AST) -> Iterator[tuple[ast.AST, str, Any]]:
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _COMPARISONS:
            other = _COMPARISONS[type(operator)]
            yield node, _named(operator, other), _setting(node, "ops", [other()])
        case ast.BinOp(op=operator) if type(operator) in _SUMS:
            swapped = _SUMS[type(operator)]
            yield node, _named(operator, swapped), _setting(node, "op", swapped())
        case ast.BoolOp(op=ast.And()):
            yield node, "and becomes or", _setting(node, "op", ast.Or())
        case ast.BoolOp(op=ast.Or()):
            yield node, "or becomes and", _setting(node, "op", ast.And())
        case ast.UnaryOp(op=ast.Not()):
            yield node, "not is left out", _becoming(node, _twice_not(node))
        case ast.Constant(value=bool(value)):
            yield node, f"{value} becomes {not value}", _setting(node, "value", not value)
        case ast.Constant(value=int(value)) if value in (0, 1, 2):
            yield node, f"{value} becomes {value + 1}", _setting(node, "value", value + 1)
        case ast.If() | ast.While() | ast.IfExp():
            yield node, "the condition is turned round", _setting(node, "test", _turned(node.test))
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield node, "None is returned", _setting(node, "value", ast.Constant(None))
        case ast.Expr(value=ast.Call()):
            yield node, "a call is left out", _setting(node, "value", ast.Constant(None))
        case ast.Break():
            yield node, "break becomes continue", _becoming(node, ast.Continue())
        case ast.Continue():
            yield node, "continue becomes break", _becoming(node, ast.Break())


def _setting(node: ast.AST, name: str, value: Any) -> Any:
    return lambda: setattr(node, name, value)


def _becoming(node: ast.AST, other: ast.AST) -> Any:
    def change() -> None:
        place = {name: getattr(node, name) for name in node._attributes if hasattr(node, name)}
        node.__class__ = other.__class__
        node.__dict__.clear()
        node.__dict__.update(other.__dict__ | place)

    return change


def _twice_not(node: ast.UnaryOp) -> ast.UnaryOp:
    kept = copy.deepcopy(node.operand)
    return ast.UnaryOp(ast.Not(), ast.UnaryOp(ast.Not(), kept))


def _turned(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)


def _named(before: ast.AST, after: type[ast.AST]) -> str:
    return f"{type(before).__name__} becomes {after.__name__}"
