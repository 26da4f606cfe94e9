"""Running commands in this process, as the shell would call them."""

import json
from pathlib import Path
from typing import Any

import pytest

from lakeroot.cli.app import main


class Run:
    """Runs commands on one catalog."""

    def __init__(self, root: Path | str, capsys: pytest.CaptureFixture[str]) -> None:
        self.root = str(root)
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        """Run a command; give its exit code, what it printed, and what it said of errors."""
        code = 0
        try:
            main(["-r", self.root, *arguments])
        except SystemExit as stop:
            code = int(stop.code or 0)
        printed = self._capsys.readouterr()
        return code, printed.out, printed.err

    def json(self, *arguments: str) -> Any:
        """Run a command that must do well, and read its answer."""
        code, out, err = self("-o", "json", *arguments)
        assert code == 0, err
        return json.loads(out)
