"""The server takes any catalog: here the metastore, with Lance and Iceberg clients on it."""

import ssl
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import lance
import lance_namespace
import pyarrow as pa
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from lance_namespace import CreateNamespaceRequest
from pyiceberg.catalog import load_catalog

ROWS = pa.table({"x": pa.array([1, 2], pa.int64())})


def test_a_metastore_is_served_to_lance_and_iceberg_clients(
    start: Callable[..., str], tmp_path: Path
) -> None:
    url = start(
        impl="lakeroot.DeltaCatNamespace",
        properties={"root": str(tmp_path / "store")},
    )
    rest = lance_namespace.connect("rest", {"uri": url})
    rest.create_namespace(CreateNamespaceRequest(id=["prod"]))
    for mode in ("create", "append"):
        lance.write_dataset(ROWS, namespace_client=rest, table_id=["prod", "t"], mode=mode)
    assert lance.dataset(namespace_client=rest, table_id=["prod", "t"]).count_rows() == 4
    iceberg = load_catalog("metastore", type="rest", uri=f"{url}/iceberg")
    assert iceberg.list_tables("prod") == [("prod", "t")]
    current = iceberg.load_table("prod.t").current_snapshot()
    assert current is not None
    assert current.snapshot_id == 2


def _certificate(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    local = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(local, critical=False)
        .sign(key, hashes.SHA256())
    )
    kept, secret = folder / "certificate.pem", folder / "key.pem"
    kept.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return kept, secret


def test_tls_is_spoken_with_the_files_that_are_given(
    start: Callable[..., str], tmp_path: Path
) -> None:
    certificate, key = _certificate(tmp_path)
    url = start(host="localhost", tls_certificate=certificate, tls_key=key)
    assert url.startswith("https://localhost:")
    trusted = ssl.create_default_context(cafile=certificate)
    with urllib.request.urlopen(f"{url}/healthz", context=trusted) as answer:
        assert answer.status == 200
