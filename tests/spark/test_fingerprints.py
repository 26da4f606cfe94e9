"""What a job computes, told apart from what another computes, over processes."""

import importlib.util
import json
import os
import subprocess
import sys
import types
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakeroot.spark.fingerprints import Fingerprint, of_function, of_sql

# Every kind of thing that may be called, in one file of a user.
FILE = '''
import datetime, enum, functools, logging, math, re, threading
from dataclasses import dataclass
import lance, numpy as np, pyarrow as pa
from pyspark.sql import functions as sf, types as st

class Size(enum.Enum):
    SMALL = 1
    LARGE = 2

MODEL = "small"
LABELS = {"cat", "dog", "bird", "horse"}
KNOWN = frozenset({"a", "b", "c"})
WORDS = re.compile("[a-z]+")
WEIGHTS = np.arange(4.0)
OUT = pa.schema([("x", pa.int64())])
LOG = logging.getLogger(__name__)
LOCK = threading.Lock()
_model = None
_cache = {}
_calls = 0

def helper(value):
    return value + 1

def load():
    global _model
    if _model is None:
        _model = object()
    return _model

def plain(batch):
    """Explain."""
    LOG.info("one")
    with LOCK:
        load()
    _cache[batch.num_rows] = MODEL
    kept = [v for v in batch.column(0).to_pylist() if v in {"x", "y", "z"} or v in KNOWN]
    sizes = [helper(len(WORDS.findall(str(v)))) * WEIGHTS[0] for v in kept]
    return pa.record_batch({"x": sizes}, schema=OUT), Size.SMALL

def scaled(batch, factor, *, size=Size.LARGE, since=datetime.date(2026, 1, 1)):
    return batch, factor, size, since, LABELS

def closing(threshold, tags):
    seen = []
    count = 0
    def inner(batch):
        nonlocal count
        count += 1
        seen.append(threshold)
        return [lambda v: v > threshold, tags]
    return inner

def twice(function):
    @functools.wraps(function)
    def around(batch):
        return function(function(batch))
    return around

@twice
def decorated(batch):
    return batch

@functools.lru_cache
def cached(batch):
    return helper(batch)

@dataclass
class Embedder:
    model: str
    size: int = 3

    def __post_init__(self):
        self.loaded = None
        self.uses = 0
        self.lock = threading.Lock()

    def __call__(self, batch):
        self.loaded = self.loaded or object()
        self.uses += 1
        return self.embed(batch)

    def embed(self, batch):
        return helper(batch)

class Slotted:
    __slots__ = ("model",)
    def __init__(self, model):
        self.model = model
    def __call__(self, batch):
        return self.model

@lance.batch_udf(output_schema=OUT)
def arrow(batch):
    return helper(batch)

@sf.pandas_udf(st.LongType())
def series(column):
    return column + 1

ALL = {
    "plain": plain,
    "lambda": lambda batch: {"x": batch, "y": ("a", 1.5, None, b"z")},
    "partial": functools.partial(scaled, factor=2),
    "closure": closing(0.5, {"a": [1, 2], "b": {3, 4}}),
    "decorated": decorated,
    "cached": cached,
    "object": Embedder("small"),
    "method": Embedder("small").embed,
    "slots": Slotted("small"),
    "arrow": arrow,
    "pandas": series,
    "builtin": len,
    "functions": functools.partial(scaled, [helper, math.sqrt, None]),
}
'''
SHOW = "{name: of_function(each, ['a']).plain() for name, each in ALL.items()}"
AS_SCRIPT = f"""
import json
from lakeroot.spark.fingerprints import of_function
print(json.dumps({SHOW}))
"""
AS_MODULE = f"""
import json
from job import ALL
from lakeroot.spark.fingerprints import of_function
for name, each in ALL.items():  # whatever they have done, they are the same
    if name in ("plain", "object", "closure", "lambda", "slots"):
        try:
            each(__import__("pyarrow").record_batch({{"a": ["x"]}}))
        except Exception:
            pass
print(json.dumps({SHOW}))
"""


def ran(folder: Path, code: str, seed: int) -> dict[str, Fingerprint]:
    """Take the fingerprints of a file in a process of their own."""
    answer = subprocess.run(
        [sys.executable, "-c", code] if code == AS_MODULE else [sys.executable, "script.py"],
        cwd=folder,
        env={**os.environ, "PYTHONHASHSEED": str(seed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    shown = json.loads(answer.stdout.splitlines()[-1])
    return {name: Fingerprint(**each) for name, each in shown.items()}


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    return in_file(tmp_path_factory.mktemp("first"), FILE, 1)


def in_file(folder: Path, text: str, seed: int) -> dict[str, Fingerprint]:
    (folder / "script.py").write_text(text + AS_SCRIPT)
    return ran(folder, AS_SCRIPT, seed)


def test_the_same_file_computes_the_same_in_every_process(first, tmp_path):
    """Run as a script with other hashes, and imported, after it was used."""
    again = in_file(tmp_path, FILE, 2)
    (tmp_path / "job.py").write_text(FILE)
    imported = ran(tmp_path, AS_MODULE, 3)
    assert len(first) == 13
    for name, one in first.items():
        assert again[name] == one, name
        assert imported[name].differences(one) == [], name
        assert one.differences(imported[name]) == [], name


def test_lines_comments_documentation_and_names_do_not_count(first, tmp_path):
    text = "# moved\n\n" + FILE.replace('"""Explain."""', '"""Explain more."""  # much more')
    text = text.replace("def plain", "def renamed").replace(": plain", ": renamed")
    again = in_file(tmp_path, text, 1)
    assert {name: each.differences(first[name]) for name, each in again.items()} == {
        name: [] for name in first
    }


@pytest.mark.parametrize(
    ("old", "new", "who", "what"),
    [
        ("num_rows] = MODEL", "num_rows] = MODEL * 2", "plain", "the code of `function`"),
        ('MODEL = "small"', 'MODEL = "large"', "plain", "the value of `function.MODEL`"),
        ("+ 1\n\ndef load", "+ 2\n\ndef load", "plain", "the code of `function.helper`"),
        ('{"x", "y", "z"}', '{"x", "y", "w"}', "plain", "the code of `function`"),
        ('frozenset({"a"', 'frozenset({"e"', "plain", "the value of `function.KNOWN`"),
        ("[a-z]+", "[a-z]*", "plain", "the value of `function.WORDS`"),
        ("arange(4.0)", "arange(5.0)", "plain", "the value of `function.WEIGHTS`"),
        ('("x", pa.int64())', '("x", pa.int32())', "plain", "the value of `function.OUT`"),
        ("1.5, None", "1.6, None", "lambda", "the code of `function`"),
        ("factor=2", "factor=3", "partial", "the value of `function(factor=)`"),
        ("factor=2)", "factor=2, size=1)", "partial", "the value of `function(...)`"),
        ('"cat", "dog"', '"cat", "cow"', "partial", "the value of `function.LABELS`"),
        ("(2026, 1, 1)", "(2026, 1, 2)", "partial", "the value of `function(default)(since=)`"),
        ("closing(0.5", "closing(0.6", "closure", "the value of `function.threshold`"),
        ("{3, 4}", "{3, 5}", "closure", "the value of `function.tags`"),
        ("v > threshold", "v < threshold", "closure", "the code of `function`"),
        (
            "return function(function(batch))",
            "return function(batch)",
            "decorated",
            "code of `function`",
        ),
        ("+ 1\n\ndef load", "+ 2\n\ndef load", "cached", "the code of `function.helper`"),
        ('Embedder("small"),', 'Embedder("large"),', "object", "the value of `function.model`"),
        ("self.uses += 1", "self.uses += 2", "object", "the code of `type(function).__call__`"),
        ("+ 1\n\ndef load", "+ 2\n\ndef load", "method", "`function.helper`"),
        ('Embedder("small").', 'Embedder("large").', "method", "`function.__self__.model`"),
        ('Slotted("small")', 'Slotted("large")', "slots", "the value of `function.model`"),
        ("+ 1\n\ndef load", "+ 2\n\ndef load", "arrow", "the code of `function.func.helper`"),
        ("column + 1", "column + 2", "pandas", "the code of `function`"),
        ('"builtin": len', '"builtin": sum', "builtin", "the code of `function`"),
        ("+ 1\n\ndef load", "+ 2\n\ndef load", "functions", "the code of `function(0)[0]`"),
        ("math.sqrt, None", "math.sqrt, 1", "functions", "the value of `function(0)[2]`"),
    ],
)
def test_whatever_changes_the_result_is_noticed(here, tmp_path, old, new, who, what):
    assert FILE.count(old) > 0
    changed = loaded(tmp_path, FILE.replace(old, new))
    differences = of_function(changed[who], None).differences(of_function(here[who], None))
    assert any(what in each for each in differences), differences


def loaded(folder: Path, text: str) -> dict[str, Any]:
    """Import a file of a user, and give what may be called in it."""
    path = folder / f"job_{uuid.uuid4().hex}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[path.stem] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, Any] = module.ALL
    return found


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    return loaded(tmp_path_factory.mktemp("here"), FILE)


def test_sql_counts_word_by_word():
    before = of_sql({"twice": "id * 2"})
    assert of_sql({"twice": "id * 2"}).differences(before) == []
    assert "'id * 2' and is 'id * 3' now" in of_sql({"twice": "id * 3"}).differences(before)[0]
    assert "'thrice'" in of_sql({"thrice": "id * 2"}).differences(before)[0]
    assert of_function(len, None).differences(before) != []


def test_what_a_function_is_shown_counts():
    assert of_function(len, ["a"]).differences(of_function(len, ["a", "b"])) == [
        "what the function reads, which was 'a, b' and is 'a' now"
    ]


def test_another_python_compiles_other_instructions(here):
    """Values still count; instructions cannot be compared."""
    now = of_function(here["plain"], None)
    old = dict.fromkeys(now.code, "other")
    assert replace(now, code=old).differences(now) != []
    assert replace(now, code=old, python="cpython 3.9").differences(now) == []
    other = replace(now, values=dict.fromkeys(now.values, "other"), python="cpython 3.9")
    assert any("MODEL" in each for each in other.differences(now))


def test_a_secret_is_not_written_down():
    key = "hunter2-hunter2"

    def ask(batch):
        return key

    assert "hunter2" not in json.dumps(of_function(ask, None).plain())
    assert any("ask" not in path for path in of_function(ask, None).values)


def test_things_that_lead_in_circles_come_to_an_end():
    circle: list[Any] = []
    circle.append(circle)
    holder = types.SimpleNamespace(circle=circle)
    holder.self = holder

    def around(batch):
        return around, circle, holder

    assert of_function(around, None).differences(of_function(around, None)) == []
