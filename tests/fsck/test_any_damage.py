"""Whatever happens to the bytes of a catalog, looking at it ends with findings, not an error."""

import random
import shutil
from pathlib import Path

import pytest

from lakeroot.storage.lance_dir.checking import KINDS
from tests.fsck.conftest import files, opened


@pytest.mark.parametrize("seed", range(4))
def test_damage_anywhere_never_makes_the_check_fail(managed_template: Path, tmp_path: Path, seed):
    chance = random.Random(seed)
    names = sorted(files(managed_template))
    for _ in range(15):
        root = Path(shutil.copytree(managed_template, tmp_path / "lake"))
        victim = root / chance.choice(names)
        victim.write_bytes(damaged(victim.read_bytes(), chance))

        found = opened(root).check()

        assert {one.code for one in found} <= set(KINDS)
        shutil.rmtree(root)


@pytest.mark.parametrize("seed", range(2))
def test_any_cut_in_a_data_file_of_a_table_is_found(template: Path, tmp_path: Path, seed):
    chance = random.Random(seed)
    root = Path(shutil.copytree(template, tmp_path / "lake"))
    (victim,) = (root / "r.lance" / "data").iterdir()
    victim.write_bytes(victim.read_bytes()[: chance.randrange(victim.stat().st_size)])

    assert [one.code for one in opened(root).check()] == ["table-file-damaged"]


def damaged(content: bytes, chance: random.Random) -> bytes:
    """Flip a bit, cut the end off, or empty it."""
    if not content:
        return b"?"
    place = chance.randrange(len(content))
    flipped = bytearray(content)
    flipped[place] ^= 1 << chance.randrange(8)
    return chance.choice([bytes(flipped), content[:place], b""])
