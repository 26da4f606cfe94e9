"""Compile the Java texts inside the driver, and hand executors the classes that they need.

The catalog's classes stay on the driver. Those that read and write are sent as a jar that is
written here, the way Spark sends any jar that is added to a running session, so they reach every
executor with the first task.
"""

import atexit
import shutil
import tempfile
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import Any

CATALOG = "lakeroot.spark.LakerootCatalog"
SOURCES = "lakeroot.spark.LakerootSources"
WRITES = "lakeroot.spark.ArrowWrites"
# The classes of these know each other, so they are one compilation.
_CATALOG_TEXTS = (
    "LakerootCatalog.java",
    "Bridge.java",
    "LakerootTable.java",
    "LakerootScans.java",
    "LakerootWrites.java",
    "LakerootStaging.java",
    "Lookups.java",
    "LakerootSource.java",
)
_SENT = "lakeroot.spark.sent"
_JAR = "lakeroot-arrow.jar"
_SOURCE = "lakeroot.DefaultSource"
_SOURCE_JAR = "lakeroot-source.jar"


def compiled(jvm: Any, name: str = CATALOG) -> Any:
    """Compile once per JVM: classes of two compilations would not know each other."""
    properties = jvm.java.lang.System.getProperties()
    if properties.get(CATALOG) is None:
        above = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        reads = _cooked(jvm, above, "ArrowReads.java", "TaskFailure.java")
        writes = _cooked(jvm, reads.getClassLoader(), "ArrowWrites.java")
        catalog = _cooked(jvm, writes.getClassLoader(), *_CATALOG_TEXTS)
        sent = jvm.java.util.HashMap(reads.getBytecodes())
        sent.putAll(writes.getBytecodes())
        properties.put(_SENT, sent)
        properties.put(WRITES, writes.getClassLoader().loadClass(WRITES))
        properties.put(SOURCES, catalog.getClassLoader().loadClass(SOURCES))
        properties.put(CATALOG, catalog.getClassLoader().loadClass(CATALOG))
    return properties.get(name)


def put_source(jvm: Any) -> None:
    """Put the class that Spark looks for by the name of the format where Spark looks for it.

    Spark's own launcher gives every thread a class loader that can take more classes.
    """
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass(_SOURCE)
    except Exception:  # noqa: BLE001  # Java's way to say that it is not there
        classes = _cooked(jvm, loader, "DefaultSource.java").getBytecodes()
        loader.addURL(jvm.java.io.File(str(_jar(_SOURCE_JAR, classes))).toURI().toURL())
        loader.loadClass(_SOURCE)


def _joined(texts: list[str]) -> str:
    """Make one text of several: classes of one package know each other only if loaded together."""
    lines = [line for text in texts for line in text.splitlines()]
    imports = sorted({line for line in lines if line.startswith("import ")})
    package = next(line for line in lines if line.startswith("package "))
    rest = [line for line in lines if not line.startswith(("import ", "package "))]
    return "\n".join([package, *imports, *rest])


def _cooked(jvm: Any, above: Any, *names: str) -> Any:
    texts = [files("lakeroot.spark.spark_sql").joinpath(name).read_text() for name in names]
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(above)
    compiler.setSourceVersion(8)
    compiler.setTargetVersion(8)
    compiler.cook(_joined(texts))
    return compiler


def send_classes(context: Any) -> None:
    """Give the executors of a Spark context the classes that read and write batches."""
    jars = context._jsc.sc().listJars()  # noqa: SLF001
    if any(jars.apply(number).endswith(_JAR) for number in range(jars.size())):
        return
    classes = context._jvm.java.lang.System.getProperties().get(_SENT)  # noqa: SLF001
    context._jsc.sc().addJar(str(_jar(_JAR, classes)))  # noqa: SLF001


def _jar(name: str, classes: Any) -> Path:
    """Write classes into a jar that stays as long as this process: whoever loads may come late."""
    directory = Path(tempfile.mkdtemp(prefix="lakeroot-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    with zipfile.ZipFile(directory / name, "w") as jar:
        for each in classes:
            jar.writestr(each.replace(".", "/") + ".class", bytes(classes[each]))
    return directory / name
