"""TLS with real certificates: whom we trust, and what we show."""

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from urllib3.exceptions import InsecureRequestWarning

from lakeroot.model.errors import ServiceUnavailableError
from lakeroot.storage.iceberg_rest.client import Client
from lakeroot.storage.iceberg_rest.config import read_config
from tests.iceberg.servers import Reply, misbehaving

NOTHING: Reply = (200, {"defaults": {}, "overrides": {}, "namespaces": []})


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as files."""

    cert: str
    key: str


def certificate(directory: Path, name: str, issuer: Pair | None = None) -> Pair:
    """Make a certificate for the loopback address, signed by an issuer or by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    signer, signing_key = subject, key
    if issuer is not None:
        signer = x509.load_pem_x509_certificate(Path(issuer.cert).read_bytes()).subject
        loaded = serialization.load_pem_private_key(Path(issuer.key).read_bytes(), None)
        assert isinstance(loaded, ec.EllipticCurvePrivateKey)
        signing_key = loaded
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(signing_key, hashes.SHA256())
    )
    pair = Pair(str(directory / f"{name}.pem"), str(directory / f"{name}.key"))
    Path(pair.cert).write_bytes(made.public_bytes(serialization.Encoding.PEM))
    Path(pair.key).write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return pair


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return certificate(tmp_path_factory.mktemp("tls"), "authority")


def listening(authority: Pair, directory: Path, *, asks_who: bool = False) -> ssl.SSLContext:
    server = certificate(directory, "server", authority)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.cert, server.key)
    if asks_who:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(authority.cert)
    return context


def client_of(endpoint: str, **properties: str) -> Client:
    return Client(read_config({"endpoint": endpoint, "retry_backoff": "1", **properties}))


def test_an_authority_that_is_given_is_trusted(authority: Pair, tmp_path: Path) -> None:
    with misbehaving(lambda _: NOTHING, listening(authority, tmp_path)) as server:
        client = client_of(server.endpoint, **{"ssl.cabundle": authority.cert})
        assert client.list_namespaces(()) == []


def test_an_unknown_authority_is_not_trusted_and_nothing_is_sent(
    authority: Pair, tmp_path: Path
) -> None:
    with misbehaving(lambda _: NOTHING, listening(authority, tmp_path)) as server:
        with pytest.raises(ServiceUnavailableError) as refusal:
            client_of(server.endpoint, token="secret").list_namespaces(())
        assert "ssl.cabundle" in refusal.value.fix
        assert server.requests == []


def test_a_server_that_asks_who_we_are_is_shown_our_certificate(
    authority: Pair, tmp_path: Path
) -> None:
    ours = certificate(tmp_path, "client", authority)
    shown = {"ssl.client.cert": ours.cert, "ssl.client.key": ours.key}
    trusted = {"ssl.cabundle": authority.cert}
    with misbehaving(lambda _: NOTHING, listening(authority, tmp_path, asks_who=True)) as server:
        assert client_of(server.endpoint, **trusted, **shown).list_namespaces(()) == []
        with pytest.raises(ServiceUnavailableError):
            client_of(server.endpoint, **trusted).list_namespaces(())


def test_verification_is_switched_off_only_loudly(authority: Pair, tmp_path: Path) -> None:
    with misbehaving(lambda _: NOTHING, listening(authority, tmp_path)) as server:
        with pytest.warns(UserWarning, match="ssl.verify is false"):
            client = client_of(server.endpoint, **{"ssl.verify": "false"})
        with pytest.warns(InsecureRequestWarning):
            assert client.list_namespaces(()) == []


def test_a_certificate_for_another_host_is_not_trusted(authority: Pair, tmp_path: Path) -> None:
    with misbehaving(lambda _: NOTHING, listening(authority, tmp_path)) as server:
        elsewhere = server.endpoint.replace("127.0.0.1", "127.0.0.2")
        with pytest.raises(ServiceUnavailableError):
            client_of(elsewhere, **{"ssl.cabundle": authority.cert}).list_namespaces(())
        assert server.requests == []
