"""Profiles that are damaged: one byte of the file is another."""

from pathlib import Path

import pytest

from lakeroot.lake.profiles import profiles
from lakeroot.model.errors import LakerootError

TEXT = b'[profiles.dev]\nroot = "./lake"\nretries = 3\n[profiles.dev.storage]\nregion = "eu"\n'
OTHERS = (0, 0x80, 0xFF, ord('"'), ord("\n"), ord("["), ord("="))


def test_one_byte_of_the_profiles_makes_no_more_than_an_error_that_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config.toml"
    monkeypatch.setenv("LAKEROOT_CONFIG", str(file))
    told = []
    for place in range(len(TEXT)):
        for other in OTHERS:
            file.write_bytes(TEXT[:place] + bytes([other]) + TEXT[place + 1 :])
            try:
                profiles()
            except LakerootError as error:
                told.append(str(error))
    assert len(told) > len(TEXT)
    assert all(str(file) in one for one in told)
