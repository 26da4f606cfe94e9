"""A plugin of pytest, for runs with a mistake, and for the one that sees which test runs what.

`LAKEROOT_MUTANT` names the mistake; nothing on disk changes. `LAKEROOT_LINES` names the file into
which each test's lines of the core modules are written.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.mutation.modules import MODULES, SOURCE
from tests.mutation.mutants import mutated


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module with one mistake in it."""

    mistake: tuple[str, int] = ("", 0)

    def get_code(self, fullname: str) -> Any:
        source = Path(self.path).read_text(encoding="utf-8")
        return compile(mutated(source, *self.mistake), self.path, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the one module that is to be wrong."""

    def __init__(self, mutant: str) -> None:
        self._module, function, number = mutant.split(":")
        self._mistake = (function, int(number))

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname != self._module:
            return None
        place = str(SOURCE / (fullname.replace(".", "/") + ".py"))
        loader = _Loader(fullname, place)
        loader.mistake = self._mistake
        return importlib.util.spec_from_file_location(fullname, place, loader=loader)


_MUTANT = os.environ.get("LAKEROOT_MUTANT")
if _MUTANT:
    if _MUTANT.partition(":")[0] in sys.modules:
        raise RuntimeError("The module was loaded before the mistake could be made")
    sys.meta_path.insert(0, _Finder(_MUTANT))


class _Lines:
    """Sees which lines of the core modules run."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, list[int]]] = {}
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()
        self._known = {str(SOURCE / (name.replace(".", "/") + ".py")): name for name in MODULES}
        self._now: dict[str, set[int]] = {}

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        module = self._known.get(frame.f_code.co_filename)
        if module is None:
            return None
        lines = self._now.setdefault(module, set())

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            lines.add(frame.f_lineno)
            return line

        lines.add(frame.f_lineno)
        return line

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        self._now = {}
        threading.settrace(self._call)
        sys.settrace(self._call)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            self.found[item.nodeid] = {name: sorted(lines) for name, lines in self._now.items()}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0) + report.duration
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        told = {
            name: {"seconds": self.seconds.get(name, 0), "lines": lines}
            for name, lines in self.found.items()
            if name not in self.failed  # Where tracing disturbs a test, it tells nothing.
        }
        Path(os.environ["LAKEROOT_LINES"]).write_text(json.dumps(told), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("LAKEROOT_LINES"):
        config.pluginmanager.register(_Lines())
