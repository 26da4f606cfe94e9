"""Tell whether a job computes what it computed before, perhaps in another process.

Two pickles of one function can differ. What a function does is in its instructions and in the plain
values that it uses; both are taken down as digests, because a value may be a secret. To refuse the
very same function would be worse than not to notice every change of another, so this is left out:

- names, files, lines and texts that only explain;
- functions and classes of libraries, which an upgrade may change;
- objects that are no plain values, such as models, clients and locks, beyond their type and the
  functions they hold; of objects whose class is not a library's, the attributes are looked at;
- what the code itself changes: caches, counters, and whatever is loaded at the first use;
- instructions, when another Python has compiled them.
"""

import contextlib
import dis
import functools
import hashlib
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import PurePath
from typing import Any, Final

from lakeroot.spark.plain_values import plain_text

_PYTHON: Final = f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"
_ROOT: Final = "function"
_LIBRARIES: Final = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))
_INSTALLED: Final = ("site-packages", "dist-packages")
# They hold functions of others, and are upgraded by others.
_WRAPPERS: Final = frozenset({"lance", "pyspark", "functools"})
_MAKES_AN_OBJECT: Final = frozenset({"__init__", "__post_init__", "__new__", "__setstate__"})
_CHANGES_IN_PLACE: Final = frozenset(
    {"add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove"}
    | {"setdefault", "update"}
)
# Where a value was found: in which globals, closure or class, and under which name.
_Place = tuple[int | type[Any], str]
_HOLDS_CODE: Final = (types.FunctionType, types.MethodType, functools.partial)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a job computes, as far as it can be told without running it."""

    # In words, and each of them counts: columns with their SQL, or what a function is shown.
    says: Mapping[str, str]
    # Digests, by the way that leads from the function to what they are of.
    code: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    python: str = _PYTHON

    def plain(self) -> dict[str, Any]:
        """Write it as JSON can hold it."""
        return asdict(self)

    def differences(self, before: "Fingerprint") -> list[str]:
        """Say what is not as it was before."""
        found = [
            f"{name}, which was {before.says.get(name)!r} and is {self.says.get(name)!r} now"
            for name in sorted({*self.says, *before.says})
            if self.says.get(name) != before.says.get(name)
        ]
        if self.python == before.python:
            found += [f"the code of `{name}`" for name in _changed(self.code, before.code)]
        found += [f"the value of `{name}`" for name in _changed(self.values, before.values)]
        return found


def _changed(now: Mapping[str, str], before: Mapping[str, str]) -> list[str]:
    """Name what both have and what differs.

    What only one of them has was found in another way, as when a script is imported the next time:
    the code that leads to it, which both have, is the same or is named here.
    """
    return sorted(name for name in now.keys() & before.keys() if now[name] != before[name])


def of_sql(columns: Mapping[str, str]) -> Fingerprint:
    """Describe columns that SQL computes."""
    return Fingerprint({f"the column {name!r}": sql for name, sql in columns.items()})


def of_function(function: Callable[..., Any], reads: Sequence[str] | None) -> Fingerprint:
    """Describe a function, a partial one, a method, or an object that can be called."""
    looking = _Looking()
    looking.at_root(function)
    seen = "all columns" if reads is None else ", ".join(reads)
    return Fingerprint({"what the function reads": seen}, looking.code, looking.lasting_values())


class _Looking:
    """Goes through whatever a function uses, each thing once."""

    def __init__(self) -> None:
        self.code: dict[str, str] = {}
        self._values: dict[str, str] = {}
        self._places: dict[str, _Place] = {}
        self._assigned: set[_Place] = set()
        self._changed_in_place: set[_Place] = set()
        self._containers: set[str] = set()
        self._own_packages: set[str] = set()
        self._seen: set[int] = set()

    def lasting_values(self) -> dict[str, str]:
        """Give the values, without what the code keeps for itself."""
        return {path: digest for path, digest in self._values.items() if not self._is_state(path)}

    def _is_state(self, path: str) -> bool:
        place = self._places.get(path)
        return place in self._assigned or (
            path in self._containers and place in self._changed_in_place
        )

    def at_root(self, function: Any) -> None:
        """Look at what is called, whoever has written it."""
        self._own_packages |= set(_packages(function)) - _WRAPPERS
        # Whatever it is, there is something to compare.
        self.code[_ROOT] = _digest(type(function).__qualname__)
        if isinstance(function, types.BuiltinFunctionType):
            self.code[_ROOT] = _digest(function.__qualname__)
        self._look(function, _ROOT)

    def _look(self, thing: Any, path: str, place: _Place | None = None) -> None:
        if place is not None:
            self._places[path] = place
        if isinstance(thing, functools.partial):
            self._look(thing.func, path)
            self._arguments(path, thing.args, thing.keywords)
        elif isinstance(thing, types.MethodType):
            self._look(thing.__func__, path)
            self._look(thing.__self__, f"{path}.__self__")
        elif isinstance(thing, types.FunctionType):
            self._function(thing, path)
        elif isinstance(thing, type):
            self._class(thing, path)
        elif not isinstance(thing, types.ModuleType | types.BuiltinFunctionType):
            self._value(thing, path)

    def _arguments(self, path: str, given: Sequence[Any], named: Mapping[str, Any]) -> None:
        self._note(f"{path}(...)", f"{len(given)} {sorted(named)}")
        for number, each in enumerate(given):
            self._look(each, f"{path}({number})")
        for name, each in named.items():
            self._look(each, f"{path}({name}=)")

    def _is_own(self, module: str | None) -> bool:
        return _package(module) in self._own_packages or not _is_of_library(module)

    def _is_new(self, thing: Any) -> bool:
        new = id(thing) not in self._seen
        self._seen.add(id(thing))
        return new

    def _function(self, function: types.FunctionType, path: str) -> None:
        inside = function.__globals__
        wrapped = function.__dict__.get("__wrapped__")
        if not self._is_own(inside.get("__name__")):
            # A decorator of a library; what it decorates may be the user's.
            if isinstance(wrapped, _HOLDS_CODE):
                self._look(wrapped, path)
            return
        if not self._is_new(function):
            return
        codes = list(_codes(function.__code__))
        self.code[path] = _digest("\n".join(line for code in codes for line in _lines(code)))
        self._arguments(
            f"{path}(default)", function.__defaults__ or (), function.__kwdefaults__ or {}
        )
        free = function.__code__.co_freevars
        cells = dict(zip(free, function.__closure__ or (), strict=True))
        for code in codes:
            self._uses(code, path, inside, cells)

    def _uses(
        self,
        code: types.CodeType,
        path: str,
        inside: dict[str, Any],
        cells: dict[str, types.CellType],
    ) -> None:
        in_place = _changed_in_place(code)
        for kind, name in _names(code):
            if kind == "DEREF" and name in cells:
                value = _content(cells[name])
                place: _Place = (id(cells[name]), name)
            elif kind == "GLOBAL" and name in inside:
                place, value = (id(inside), name), inside[name]
            else:
                continue
            if name in in_place:
                self._changed_in_place.add(place)
            if isinstance(value, types.ModuleType):
                self._module(value, code, f"{path}.{name}")
            else:
                self._look(value, f"{path}.{name}", place)
        for kind, name in _names(code, stored=True):
            if kind == "DEREF" and name in cells:
                self._assigned.add((id(cells[name]), name))
            elif kind == "GLOBAL":
                self._assigned.add((id(inside), name))

    def _module(self, module: types.ModuleType, code: types.CodeType, path: str) -> None:
        """Look at what a function may use of a module that it names."""
        if self._is_own(module.__name__):
            held = vars(module)
            for name in code.co_names:
                if name in held:
                    self._look(held[name], f"{path}.{name}", (id(held), name))

    def _class(self, kind: type, path: str) -> None:
        if not self._is_own(kind.__module__) or not self._is_new(kind):
            return
        for name, each in vars(kind).items():
            inner = each.fget if isinstance(each, property) else each
            inner = getattr(inner, "__func__", inner)
            if isinstance(inner, types.FunctionType):
                for code in () if name in _MAKES_AN_OBJECT else _codes(inner.__code__):
                    stored = _names(code, stored=True)
                    self._assigned |= {(kind, held) for way, held in stored if way == "ATTR"}
                    self._changed_in_place |= {(kind, held) for held in _changed_in_place(code)}
                self._function(inner, f"{path}.{name}")
            elif not name.startswith("_"):
                self._look(inner, f"{path}.{name}", (kind, name))
        for base in kind.__bases__:
            self._class(base, f"{path}.{base.__name__}")

    def _value(self, value: Any, path: str) -> None:
        if isinstance(value, list | dict | set | bytearray):
            self._containers.add(path)
        text = plain_text(value)
        if text is not None:
            self._note(path, text)
        elif self._is_new(value):
            self._object(value, path)

    def _object(self, value: Any, path: str) -> None:
        kind = type(value)
        self._note(f"type({path})", kind.__qualname__)
        if isinstance(value, list | tuple | dict):
            self._note(f"len({path})", str(len(value)))
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            for key, each in pairs:
                if plain_text(key) is not None:
                    self._look(each, f"{path}[{key!r}]")
            return
        is_own = self._is_own(kind.__module__)
        self._class(kind, f"type({path})")
        for name, each in _attributes(value):
            if name == "__wrapped__":
                self._look(each, path)
            elif is_own or isinstance(each, _HOLDS_CODE):
                self._look(each, f"{path}.{name}", (kind, name))

    def _note(self, path: str, text: str) -> None:
        self._values[path] = _digest(text)


def _packages(thing: Any) -> Iterator[str]:
    """Name the packages that something comes from which can be called."""
    if isinstance(thing, types.FunctionType):
        yield _package(thing.__globals__.get("__name__"))
        yield from _packages(thing.__dict__.get("__wrapped__"))
    elif isinstance(thing, functools.partial):
        yield from _packages(thing.func)
    elif isinstance(thing, types.MethodType):
        yield from _packages(thing.__func__)
    elif callable(thing) and not isinstance(thing, type):
        yield _package(type(thing).__module__)
        for _, each in _attributes(thing):
            if isinstance(each, _HOLDS_CODE):
                yield from _packages(each)


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """Give what an object holds, without running any code of its own."""
    with contextlib.suppress(AttributeError):
        yield from object.__getattribute__(value, "__dict__").items()
    for kind in type(value).__mro__:
        for name, each in vars(kind).items():
            if isinstance(each, types.MemberDescriptorType) and not name.startswith("__"):
                try:
                    yield name, each.__get__(value)
                except AttributeError:
                    continue


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # Not assigned yet.
        return None


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Give some code, and that of the functions inside it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _codes(each)


def _lines(code: types.CodeType) -> Iterator[str]:
    """Write down what some code does; documentation and places in files are no part of it."""
    for each in dis.get_instructions(code):
        if each.opcode in dis.hasconst:
            constant = each.argval
            shown = "code" if isinstance(constant, types.CodeType) else plain_text(constant)
        elif each.opcode in (*dis.hasname, *dis.haslocal, *dis.hasfree):
            shown = str(each.argval)
        else:
            shown = str(each.arg)
        yield f"{each.opname} {shown}"
    yield f"{code.co_argcount} {code.co_kwonlyargcount} {code.co_flags} {code.co_exceptiontable!r}"


def _names(code: types.CodeType, *, stored: bool = False) -> Iterator[tuple[str, str]]:
    """Give what some code reads or assigns: a GLOBAL, a DEREF (of a closure), an ATTR."""
    for each in dis.get_instructions(code):
        verb, _, kind = each.opname.partition("_")
        if (verb in ("STORE", "DELETE")) == stored and isinstance(each.argval, str):
            if kind == "GLOBAL" or (kind == "NAME" and not stored):
                yield "GLOBAL", each.argval
            elif kind.endswith("DEREF"):
                yield "DEREF", each.argval
            elif kind == "ATTR":
                yield "ATTR", each.argval


def _changed_in_place(code: types.CodeType) -> set[str]:
    """Name what some code may change without assigning it."""
    steps = [(each.opname, each.argval) for each in dis.get_instructions(code)]
    if any(name in ("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE") for name, _ in steps):
        return {*code.co_names, *code.co_freevars}
    return {
        str(before)
        for (_, before), (name, after) in pairwise(steps)
        if name in ("LOAD_METHOD", "LOAD_ATTR") and after in _CHANGES_IN_PLACE
    }


def _package(module: str | None) -> str:
    return (module or "").partition(".")[0]


def _is_of_library(module: str | None) -> bool:
    if module == "__main__":
        return False
    file = getattr(sys.modules.get(module or ""), "__file__", None)
    if file is None or any(part in _INSTALLED for part in PurePath(file).parts):
        return True
    return any(PurePath(file).is_relative_to(path) for path in _LIBRARIES)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]
