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
WRITES = "lakeroot.spark.ArrowWrites"
_SENT = "lakeroot.spark.sent"
_JAR = "lakeroot-arrow.jar"


def compiled(jvm: Any, name: str = CATALOG) -> Any:
    """Compile once per JVM: classes of two compilations would not know each other."""
    properties = jvm.java.lang.System.getProperties()
    if properties.get(CATALOG) is None:
        above = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        reads = _cooked(jvm, "ArrowReads.java", above)
        writes = _cooked(jvm, "ArrowWrites.java", reads.getClassLoader())
        catalog = _cooked(jvm, "LakerootCatalog.java", writes.getClassLoader())
        sent = jvm.java.util.HashMap(reads.getBytecodes())
        sent.putAll(writes.getBytecodes())
        properties.put(_SENT, sent)
        properties.put(WRITES, writes.getClassLoader().loadClass(WRITES))
        properties.put(CATALOG, catalog.getClassLoader().loadClass(CATALOG))
    return properties.get(name)


def _cooked(jvm: Any, text: str, above: Any) -> Any:
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(above)
    compiler.setSourceVersion(8)
    compiler.setTargetVersion(8)
    compiler.cook(files("lakeroot.spark.sql").joinpath(text).read_text())
    return compiler


def send_classes(context: Any) -> None:
    """Give the executors of a Spark context the classes that read and write batches."""
    jars = context._jsc.sc().listJars()  # noqa: SLF001
    if any(jars.apply(number).endswith(_JAR) for number in range(jars.size())):
        return
    classes = context._jvm.java.lang.System.getProperties().get(_SENT)  # noqa: SLF001
    # Executors may ask for the jar as long as the context lives, which may be as long as we do.
    directory = Path(tempfile.mkdtemp(prefix="lakeroot-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    with zipfile.ZipFile(directory / _JAR, "w") as jar:
        for name in classes:
            jar.writestr(name.replace(".", "/") + ".class", bytes(classes[name]))
    context._jsc.sc().addJar(str(directory / _JAR))  # noqa: SLF001
