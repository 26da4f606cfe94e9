"""Mistakes that are none: the program behaves the same with them, so no test can notice."""

_DIR, _META = "lakeroot.storage.lance_dir", "lakeroot.metastore"

SAME: dict[tuple[str, str], str] = {
    (
        f"{_DIR}.commits:_pause:0",
        "time.sleep(random.uniform(0, min(_LONGEST_PAUSE, 0.002 * 2**attempt)))  # noqa: S311",
    ): "how long a writer waits before it tries again: only speed",
    (
        f"{_DIR}.commits:Committer._attempt_until_done:22",
        "_pause(attempt)",
    ): "the same pause, at the place where it is made",
    (
        f"{_DIR}.markers:Markers.put:1",
        "if isinstance(self._objects, LocalObjects) or len(declared) <= 1:",
    ): "one after the other or at the same time: the same markers are put",
    (
        f"{_DIR}.version_file:_decode_timestamp:7",
        "return numbers.get(1, 0) * 1000 + numbers.get(2, 0) // 1_000_000",
    ): "a nanosecond more is no millisecond",
    (
        f"{_META}.recovery:lost_commits:8",
        "kept.sort(key=lambda path: (path.end_time or 0, path.txn_id))",
    ): "every path has its time by then, so the number is never used",
    (
        f"{_META}.foreign:_minutes:8",
        "if end - start < 2 * _MINUTE_NS:",
    ): "which of two ways finds the same directories",
    (
        f"{_META}.foreign:_minutes:10",
        "if end - start < 2 * _MINUTE_NS:",
    ): "which of two ways finds the same directories",
}
"""By name and line: why nobody can tell the difference."""
