"""The lines that a table page offers do what they say."""

import pytest

from tests.console.browsing import Browser


@pytest.mark.parametrize(
    ("name", "said"),
    [("Python", "embedding"), ("LanceDB", "embedding"), ("pyiceberg", "embedding")],
)
def test_the_lines_open_the_table(
    browser: Browser, name: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    offered = browser.get("/console/t/air$flights/overview.json").json["snippets"]
    (code,) = [one["code"] for one in offered if one["name"] == name]
    exec(compile(code, name, "exec"), {})
    assert said in capsys.readouterr().out


def test_the_lines_of_spark_name_the_table_and_the_server(browser: Browser, shared: str) -> None:
    offered = browser.get("/console/t/air$raw$a.b%20c/overview.json").json["snippets"]
    codes = {one["name"]: one["code"] for one in offered}
    assert """.load('air.raw."a.b c"')""" in codes["PySpark"]
    assert "lake.`air`.`raw`.`a.b c`" in codes["SQL"]
    for code in codes.values():
        assert shared in code
        compile(code, "snippet", "exec")
