"""`lakeroot serve`, as an operator runs it: any catalog, every setting, no open doors."""

import json
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import lance_namespace
import pyarrow as pa
import pytest
import yaml
from lance_namespace import CreateNamespaceRequest, CreateTableRequest, ListTablesRequest
from pyiceberg.catalog import load_catalog

from lakeroot.cli.serving import serve, settings_of
from lakeroot.model.errors import InvalidInputError
from lakeroot.server import Settings
from tests.server.certificates import certificate
from tests.server.conftest import IMPL
from tests.server.http import Client
from tests.server.processes import lakeroot, served
from tests.server.test_lance_clients import stream

ROWS = pa.table({"x": pa.array([1, 2], pa.int64())})
LIST = "/v1/namespace/%24/list"


def settings_from(*arguments: str, root: str = "/lake") -> Settings:
    context = serve.make_context("serve", [root, *arguments])
    options = dict(context.params)
    return settings_of(options.pop("root"), {}, options)


def ask(url: str, path: str, token: str, trusted: ssl.SSLContext, **headers: str) -> int:
    request = urllib.request.Request(
        url + path, headers={"Authorization": f"Bearer {token}", **headers}
    )
    try:
        with urllib.request.urlopen(request, context=trusted) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


def test_an_operator_makes_an_access_file_and_serves_with_everything_on(tmp_path: Path) -> None:
    catalog = lance_namespace.connect(IMPL, {"root": str(tmp_path / "lake")})
    catalog.create_namespace(CreateNamespaceRequest(id=["prod"]))
    catalog.create_namespace(CreateNamespaceRequest(id=["other"]))
    access, audit, log = (tmp_path / name for name in ("access.toml", "audit", "requests"))
    told = lakeroot("token", "create", "etl", "-f", str(access))
    assert told.returncode == 0, told.stderr
    token = told.stdout.strip()
    assert token not in access.read_text()
    assert access.stat().st_mode & 0o777 == 0o600
    assert lakeroot("grant", "add", "writer", "token:etl", "prod", "-f", str(access)).stdout
    public, secret = certificate(tmp_path)
    trusted = ssl.create_default_context(cafile=public)

    with served(
        str(tmp_path / "lake"),
        *("--host", "0.0.0.0", "--workers", "1", "--access-file", str(access)),
        *("--audit-log", str(audit), "--access-log", str(log), "--log-format", "text"),
        *("--tls-certificate", str(public), "--tls-key", str(secret)),
        *("--trusted-proxy", "127.0.0.1", "--max-rate", "1000"),
    ) as server:
        url = server.url.replace("0.0.0.0", "localhost")
        assert url.startswith("https://")
        assert ask(url, "/healthz", "", trusted) == 200
        assert ask(url, LIST, "no-token", trusted) == 401
        seen = {"X-Request-Id": "mine-7", "X-Forwarded-For": "203.0.113.7"}
        assert ask(url, "/v1/namespace/prod/list", token, trusted, **seen) == 200
        assert ask(url, "/v1/namespace/other/list", token, trusted) == 404
        assert ask(url, "/iceberg/v1/namespaces/prod", token, trusted) == 200
        # Revoked while the server runs: it notices by itself.
        assert lakeroot("token", "revoke", "-y", "etl", "-f", str(access)).returncode == 0
        deadline = time.monotonic() + 300
        while ask(url, LIST, token, trusted) != 401:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert server.process.returncode in (0, -15)
    kept = [json.loads(line) for line in audit.read_text().splitlines()]
    assert {"unauthenticated", "denied"} <= {line["event"] for line in kept}
    (mine,) = [line for line in log.read_text().splitlines() if "mine-7" in line]
    assert " 203.0.113.7 token:etl GET lance list_namespaces " in mine
    for file in (audit, log):
        assert token not in file.read_text()
    assert token not in "".join(server.said)


def test_an_iceberg_catalog_and_a_metastore_are_served_like_a_directory(tmp_path: Path) -> None:
    metastore = lance_namespace.connect(
        "lakeroot.DeltaCatNamespace", {"root": str(tmp_path / "store")}
    )
    metastore.create_namespace(CreateNamespaceRequest(id=["prod"]))
    with served(str(tmp_path / "store"), "--log-format", "none") as first:
        upstream = first.url.replace("http://", "iceberg+http://") + "/iceberg"
        with served(upstream, "--log-format", "none") as second:
            rest = lance_namespace.connect("rest", {"uri": second.url})
            rest.create_table(CreateTableRequest(id=["prod", "t"]), stream(ROWS))
            assert rest.list_tables(ListTablesRequest(id=["prod"])).tables == ["t"]
            assert lance.dataset(namespace_client=rest, table_id=["prod", "t"]).count_rows() == 2
            for url in (first.url, second.url):
                iceberg = load_catalog("any", type="rest", uri=f"{url}/iceberg")
                assert [f.name for f in iceberg.load_table("prod.t").schema().fields] == ["x"]
    metastore = lance_namespace.connect(
        "lakeroot.DeltaCatNamespace", {"root": str(tmp_path / "store")}
    )
    assert metastore.list_tables(ListTablesRequest(id=["prod"])).tables == ["t"]


def test_the_network_is_not_let_in_without_an_access_file(tmp_path: Path) -> None:
    told = lakeroot("serve", str(tmp_path), "--host", "0.0.0.0", "--port", "0")
    assert told.returncode == 2
    assert "let everyone on the network change the catalog" in told.stderr
    assert "Traceback" not in told.stderr
    settings_from("--host", "0.0.0.0", "--allow-anyone").check()
    settings_from("--host", "::1").check()
    settings_from("--host", "localhost").check()
    for host in ("::", "192.0.2.1", "lake.example.com"):
        with pytest.raises(InvalidInputError):
            settings_from("--host", host).check()


def test_every_setting_can_be_given_on_the_command_line() -> None:
    settings = settings_from(
        *("--workers", "3", "--access-file", "a.toml", "--audit-log", "audit", "--traces"),
        *("--trusted-proxy", "10.0.0.1", "--trusted-proxy", "10.0.0.2", "--log-format", "none"),
        *("--vend-role", "arn:aws:iam::1:role/r", "--vend-region", "eu-north-1"),
        *("--vend-seconds", "900", "--iceberg-mirror", "--iceberg-scan-planning"),
        *("--max-json-mb", "1", "--max-body-mb", "2", "--max-rows", "3", "--max-seconds", "4"),
        *("--max-requests", "5", "--max-rate", "6", "--max-burst", "7"),
    )
    settings.check()
    assert (settings.impl, settings.properties) == (IMPL, {"root": "/lake"})
    assert (settings.workers, settings.traces, settings.log_requests) == (3, True, False)
    assert settings.trusted_proxies == ("10.0.0.1", "10.0.0.2")
    vendor: Any = settings.credential_vendor
    assert (vendor.role_arn, vendor.region, vendor.seconds) == (
        "arn:aws:iam::1:role/r", "eu-north-1", 900,
    )  # fmt: skip
    assert (settings.iceberg.mirror, settings.iceberg.scan_planning) == (True, True)
    limits = settings.limits
    assert (limits.json_bytes, limits.arrow_bytes, limits.rows) == (1 << 20, 2 << 20, 3)
    assert (limits.request_seconds, limits.concurrency) == (4, 5)
    assert (limits.requests_per_second, limits.burst) == (6, 7)


def test_the_command_serves_with_the_same_limits_as_the_library() -> None:
    assert settings_from() == Settings(IMPL, {"root": "/lake"})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--tls-key", "k.pem"], "both a certificate file and a key file"),
        (["--tls-certificate", "c.pem", "--tls-key", "k.pem"], "TLS cannot be spoken"),
        (["--vend-role", "r", "--vend-storage-options"], "Choose one"),
        (["--vend-region", "r"], "needs --vend-role"),
    ],
)
def test_settings_that_cannot_work_are_refused(arguments: list[str], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        settings_from(*arguments).check()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--access-file", "missing.toml"], "missing.toml cannot be read"),
        (["--audit-log", "/proc/none/audit"], "cannot be written"),
        (["--port", "99999"], "99999"),
        (["--workers", "0"], "0 is not in the range"),
        (["iceberg+http://", "twice"], "unexpected extra argument"),
    ],
)
def test_the_command_says_what_is_wrong_and_stops(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from lakeroot.cli import main

    with pytest.raises(SystemExit) as stopped:
        main(["serve", str(tmp_path), *arguments])
    assert stopped.value.code == 2
    err = capsys.readouterr().err
    assert words in err
    assert "Traceback" not in err


def test_the_past_is_not_served(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from lakeroot.cli import main

    with pytest.raises(SystemExit) as stopped:
        main(["--as-of", "1", "serve", str(tmp_path)])
    assert stopped.value.code == 2
    assert "The past cannot be served" in capsys.readouterr().err


def test_the_container_starts_the_server_with_arguments_it_knows() -> None:
    repository = Path(__file__).parents[2]
    text = (repository / "Dockerfile").read_text()
    found = re.search(r"^CMD (\[.*\])$", text, re.MULTILINE)
    assert found is not None
    assert 'ENTRYPOINT ["lakeroot", "serve"]' in text
    compose = yaml.safe_load((repository / "compose.yaml").read_text())
    for given in (json.loads(found[1]), compose["services"]["lakeroot"]["command"]):
        settings = settings_from(*given[1:], root=given[0])
        settings.check()
        assert settings.properties == {"root": "/lake"}


def test_forwarded_headers_are_believed_of_nobody_else(
    start: Callable[..., str], tmp_path: Path
) -> None:
    log = tmp_path / "access.jsonl"
    forged = {"x-forwarded-for": "203.0.113.7", "x-request-id": "forged"}
    with Client(start(log_requests=True, access_log=log, trusted_proxies=("192.0.2.1",))) as http:
        http.get(LIST, headers=forged)
        deadline = time.monotonic() + 300
        while not log.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.02)
    assert json.loads(log.read_text())["client"] == "127.0.0.1"
