"""Where tables are: new locations, and the options with which a location is opened."""

import re
from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

from lakeroot.model.identifiers import Identifier

_UNPLAIN: Final = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST: Final = 60
_SECRET_WORDS: Final = ("access_key", "account_key", "service_account", "token", "credential")

# What Iceberg calls the options of a file system, and what Lance calls them.
_OPTIONS: Final = {
    "s3.access-key-id": "aws_access_key_id",
    "s3.secret-access-key": "aws_secret_access_key",
    "s3.session-token": "aws_session_token",
    "s3.region": "aws_region",
    "client.region": "aws_region",
    "s3.endpoint": "aws_endpoint",
    "gcs.oauth2.token": "google_storage_token",
    "adls.account-name": "azure_storage_account_name",
    "adls.account-key": "azure_storage_account_key",
    "adls.sas-token": "azure_storage_sas_token",
}


def new_location(below: str, identifier: Identifier) -> str:
    """Choose a location that no table ever had, so that an old table's data is never adopted.

    It is two levels deep whatever the depth of the namespace: some catalogs allow no other place.
    """
    namespace = ".".join(_plain(name) for name in identifier[:-1])
    return f"{below.rstrip('/')}/{namespace}/{location_name(identifier)}"


def location_name(identifier: Identifier) -> str:
    """Name the directory of a new table: readable, and used by no other."""
    return f"{_plain(identifier[-1])}-{uuid4().hex[:12]}.lance"


def storage_options(
    told: Mapping[str, Any], configured: Mapping[str, str], location: str
) -> dict[str, str]:
    """Give the options to open a table with: what the server lends, under what we are told.

    Credentials for the longest prefix of the location win over the general configuration.
    """
    lent = _texts(told.get("config"))
    matching = [
        c
        for c in told.get("storage-credentials") or ()
        if isinstance(c, Mapping) and location.startswith(str(c.get("prefix", "")))
    ]
    for credential in sorted(matching, key=lambda c: len(str(c.get("prefix", "")))):
        lent |= _texts(credential.get("config"))
    return {**_translated(lent), **configured}


def brings_credentials(options: Mapping[str, str]) -> bool:
    """Tell whether options say who opens the storage, and not only where and how."""
    return any(word in key.lower() for key in options for word in _SECRET_WORDS)


def _translated(lent: Mapping[str, str]) -> dict[str, str]:
    options = {_OPTIONS[key]: value for key, value in lent.items() if key in _OPTIONS}
    if options.get("aws_endpoint", "").startswith("http://"):
        options["allow_http"] = "true"
    if "s3.path-style-access" in lent:
        path_style = lent["s3.path-style-access"].lower() == "true"
        options["aws_virtual_hosted_style_request"] = "false" if path_style else "true"
    return options


def _texts(value: object) -> dict[str, str]:
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, Mapping) else {}


def _plain(name: str) -> str:
    """Keep what every file system and every catalog accepts; uniqueness comes from elsewhere."""
    return _UNPLAIN.sub("_", name).strip("_-").lower()[:_LONGEST] or "x"
