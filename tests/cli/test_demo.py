import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import lakeroot


def test_the_demonstration_tells_its_story_to_the_end(tmp_path: Path) -> None:
    place = tmp_path / "lake"
    done = subprocess.run(
        [sys.executable, "-m", "lakeroot", "demo", "--months", "2", "--where", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "51,955 flights" in done.stdout
    lake = lakeroot.open(str(place))
    assert lake.tables("reports") == ["reports.by_carrier", "reports.by_month"]
    assert lake["air.flights"].tags() == {"reported": 3}
    assert len(lake["air.flights"]) == 51_955
    undone, broken, *_ = (one for one in lake.history() if ("air", "flights") in dict(one.versions))
    assert undone.message == f"Undo version {broken.version}"
    assert len(lake.at(broken.version)["air.flights"]) == 1
    assert "Checked:      everything is in order" in done.stdout


def test_the_console_is_opened_on_it(tmp_path: Path) -> None:
    lakeroot.open(str(tmp_path)).create_namespace("air")
    code = "import sys; from lakeroot.cli.demo import show; show(sys.argv[1], 0)"
    served = subprocess.Popen(
        [sys.executable, "-u", "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert served.stdout is not None
        said = served.stdout.readline()
        address = said.split()[3]
        with urlopen(f"{address}/catalog.json") as answer:
            assert "air" in answer.read().decode()
    finally:
        served.terminate()
        served.communicate()
