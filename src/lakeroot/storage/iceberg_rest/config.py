"""How to reach an Iceberg REST catalog: one value, read from string properties."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from lakeroot.model.errors import InvalidInputError
from lakeroot.storage.iceberg_rest.signing import Keys, Signature
from lakeroot.tables.iceberg import ManagedBy

STORAGE_PREFIX: Final = "storage."
HEADER_PREFIX: Final = "header."
AUTH_PREFIX: Final = "auth."

# Spellings of PyIceberg and of the older Lance implementation, and ours.
_ALIASES: Final = {
    "uri": "endpoint",
    "auth_token": "token",
    "oauth2_server_uri": "oauth2-server-uri",
    "page-size": "page_size",
    "rest-page-size": "page_size",
    "rest.access-key-id": "client.access-key-id",
    "rest.secret-access-key": "client.secret-access-key",
    "rest.session-token": "client.session-token",
}
_KNOWN: Final = frozenset(
    {
        "audience",
        "auth.type",
        "client.access-key-id",
        "client.profile-name",
        "client.region",
        "client.secret-access-key",
        "client.session-token",
        "connect_timeout",
        "credential",
        "endpoint",
        "managed_by",
        "max_retries",
        "native_lance_tables",
        "oauth2-server-uri",
        "only_lance_tables",
        "page_size",
        "prefix",
        "read_timeout",
        "request_timeout",
        "resource",
        "rest.signing-name",
        "rest.signing-region",
        "rest.sigv4-enabled",
        "retry_backoff",
        "root",
        "scope",
        "ssl.cabundle",
        "ssl.client.cert",
        "ssl.client.key",
        "ssl.verify",
        "token",
        "token_refresh_margin",
        "trust_drop",
        "warehouse",
    }
)


@dataclass(frozen=True, slots=True)
class Tls:
    """Whom to trust, and what to show to a server that asks who we are."""

    verify: bool = True
    ca_bundle: str | None = None
    client_cert: str | None = None
    client_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Auth:
    """What proves who we are: at most one of a token, a credential or a named method."""

    token: str | None = field(default=None, repr=False)
    credential: str | None = field(default=None, repr=False)
    oauth2_server_uri: str | None = None
    scope: str = "catalog"
    audience: str | None = None
    resource: str | None = None
    refresh_margin_s: float = 60.0
    signature: Signature | None = None
    method: str | None = None
    method_options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait and how often to try again. All in seconds."""

    connect: float = 10.0
    read: float = 30.0
    total: float = 120.0
    retries: int = 3
    backoff: float = 0.1


@dataclass(frozen=True, slots=True)
class Config:
    """Everything a client of an Iceberg REST catalog is told."""

    endpoint: str
    warehouse: str | None = None
    prefix: str | None = None
    root: str | None = None
    managed_by: ManagedBy = ManagedBy.STORAGE
    page_size: int | None = None
    only_lance_tables: bool = False
    trust_drop: bool = False
    native_lance_tables: bool = False
    auth: Auth = field(default_factory=Auth)
    tls: Tls = field(default_factory=Tls)
    patience: Patience = field(default_factory=Patience)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)


def read_config(properties: Mapping[str, str]) -> Config:
    """Read the configuration from string properties; refuse what is missing, wrong or unknown."""
    given = {_ALIASES.get(key, key): str(value) for key, value in properties.items()}
    unknown = [k for k in given if k not in _KNOWN and not k.startswith(_FREE)]
    if unknown:
        raise InvalidInputError(
            f"Unknown properties: {', '.join(sorted(unknown))}",
            "a misspelt property would silently do nothing",
            f"The properties are {', '.join(sorted(_KNOWN))}, storage.*, header.* and auth.*",
        )
    return Config(
        endpoint=_endpoint(given.get("endpoint", "")),
        warehouse=given.get("warehouse") or None,
        prefix=(given.get("prefix") or "").strip("/") or None,
        root=given.get("root", "").rstrip("/") or None,
        managed_by=_managed_by(given.get("managed_by", "storage")),
        page_size=_whole(given, "page_size", 1) if "page_size" in given else None,
        only_lance_tables=_switch(given, "only_lance_tables", default=False),
        trust_drop=_switch(given, "trust_drop", default=False),
        native_lance_tables=_switch(given, "native_lance_tables", default=False),
        auth=_auth(given),
        tls=_tls(given),
        patience=_patience(given),
        headers=_below(given, HEADER_PREFIX),
        storage_options=_below(given, STORAGE_PREFIX),
    )


_FREE: Final = (STORAGE_PREFIX, HEADER_PREFIX, AUTH_PREFIX)


def _endpoint(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInputError(
            f"{text!r} is not the endpoint of an Iceberg REST catalog",
            "it is no http or https address",
            "Give `endpoint`, such as https://catalog.example.com/iceberg",
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise InvalidInputError(
            "The endpoint may hold only a scheme, a host and a path",
            fix="Give credentials as `token` or `credential`",
        )
    return text.rstrip("/").removesuffix("/v1")


def _managed_by(text: str) -> ManagedBy:
    try:
        return ManagedBy(text.lower())
    except ValueError:
        raise InvalidInputError(
            f"`managed_by` cannot be {text!r}", fix="Use `storage` or `impl`"
        ) from None


def _auth(given: Mapping[str, str]) -> Auth:
    method = given.get("auth.type")
    signature = _signature(given)
    ways = [name for name in ("token", "credential", "auth.type") if given.get(name)]
    ways += ["rest.sigv4-enabled"] if signature else []
    if len(ways) > 1:
        raise InvalidInputError(
            f"{' and '.join(ways)} exclude each other",
            fix="Keep one way to prove who you are",
        )
    return Auth(
        token=given.get("token") or None,
        credential=given.get("credential") or None,
        oauth2_server_uri=given.get("oauth2-server-uri") or None,
        scope=given.get("scope", "catalog"),
        audience=given.get("audience"),
        resource=given.get("resource"),
        refresh_margin_s=_milliseconds(given, "token_refresh_margin", 60_000),
        signature=signature,
        method=method,
        method_options={k: v for k, v in _below(given, AUTH_PREFIX).items() if k != "type"},
    )


def _signature(given: Mapping[str, str]) -> Signature | None:
    if not _switch(given, "rest.sigv4-enabled", default=False):
        return None
    region = given.get("rest.signing-region") or given.get("client.region")
    if not region:
        raise InvalidInputError(
            "Requests cannot be signed", "no region is given", "Give `rest.signing-region`"
        )
    access, secret = given.get("client.access-key-id"), given.get("client.secret-access-key")
    if bool(access) != bool(secret):
        raise InvalidInputError(
            "Requests cannot be signed",
            "one half of the key is missing",
            "Give `client.access-key-id` and `client.secret-access-key`, or neither",
        )
    keys = Keys(access, secret, given.get("client.session-token")) if access and secret else None
    service = given.get("rest.signing-name") or "execute-api"
    return Signature(region, service, keys, given.get("client.profile-name"))


def _tls(given: Mapping[str, str]) -> Tls:
    return Tls(
        verify=_switch(given, "ssl.verify", default=True),
        ca_bundle=given.get("ssl.cabundle"),
        client_cert=given.get("ssl.client.cert"),
        client_key=given.get("ssl.client.key"),
    )


def _patience(given: Mapping[str, str]) -> Patience:
    return Patience(
        connect=_milliseconds(given, "connect_timeout", 10_000),
        read=_milliseconds(given, "read_timeout", 30_000),
        total=_milliseconds(given, "request_timeout", 120_000),
        retries=_whole(given, "max_retries", 0) if "max_retries" in given else 3,
        backoff=_milliseconds(given, "retry_backoff", 100),
    )


def _below(given: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {k.removeprefix(prefix): v for k, v in given.items() if k.startswith(prefix)}


def _milliseconds(given: Mapping[str, str], key: str, default: int) -> float:
    return (_whole(given, key, 1) if key in given else default) / 1000


def _whole(given: Mapping[str, str], key: str, least: int) -> int:
    try:
        value = int(given[key])
    except ValueError:
        value = least - 1
    if value < least:
        raise InvalidInputError(
            f"`{key}` cannot be {given[key]!r}", fix=f"Give a whole number from {least} up"
        )
    return value


def _switch(given: Mapping[str, str], key: str, *, default: bool) -> bool:
    text = given.get(key)
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise InvalidInputError(f"`{key}` cannot be {text!r}", fix="Write true or false")
    return text.lower() == "true"
