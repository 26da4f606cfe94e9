import subprocess
import sys
from pathlib import Path

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
