"""Handing storage credentials to Iceberg clients, in their words; never unless configured."""

from collections.abc import Mapping
from typing import Any, Final

from lakeroot.server.iceberg.catalog import SCAN_PLANNING, Catalog
from lakeroot.server.iceberg.lance_tables import FoundTable

# Lance's names of storage options, and Iceberg's names for the same things.
_ICEBERG_NAMES: Final = {
    "access_key_id": "s3.access-key-id",
    "secret_access_key": "s3.secret-access-key",
    "session_token": "s3.session-token",
    "region": "client.region",
    "endpoint": "s3.endpoint",
    "virtual_hosted_style_request": "s3.path-style-access",
    "google_service_account": "gcs.service-account",
    "account_name": "adls.account-name",
    "account_key": "adls.account-key",
    "sas_token": "adls.sas-token",
}


def iceberg_names(options: Mapping[str, str]) -> dict[str, str]:
    """Translate Lance's storage options to the properties of Iceberg's file readers."""
    found: dict[str, str] = {}
    for name, value in options.items():
        plain = name.lower().removeprefix("aws_").removeprefix("azure_storage_")
        theirs = _ICEBERG_NAMES.get(plain)
        if theirs == "s3.path-style-access":
            value = "false" if value.lower() == "true" else "true"
        if theirs is not None:
            found[theirs] = value
    return found


def lance_names(properties: Mapping[str, str]) -> dict[str, str]:
    """Translate the properties of Iceberg's file readers to Lance's storage options."""
    back = {theirs: ours for ours, theirs in _ICEBERG_NAMES.items()}
    found: dict[str, str] = {}
    for name, value in properties.items():
        ours = back.get(name)
        if ours == "virtual_hosted_style_request":
            value = "false" if value.lower() == "true" else "true"
        if ours is not None:
            prefix = "aws_" if name.startswith(("s3.", "client.")) else ""
            found[prefix + ours] = value
    return found


def config_of(catalog: Catalog, table: FoundTable, *, writes: bool) -> dict[str, str]:
    """The `config` of a loaded table.

    Credentials are here too: without a metadata location PyIceberg does not look at
    `storage-credentials`.
    """
    config = _vended(catalog, table, writes=writes)
    if catalog.opted_in(table.identifier, table.properties, SCAN_PLANNING):
        config["scan-planning-mode"] = "server"
    return config


def credentials_of(catalog: Catalog, table: FoundTable, *, writes: bool) -> list[dict[str, Any]]:
    """The `storage-credentials` of a table: for its own location and nothing else."""
    config = _vended(catalog, table, writes=writes)
    return [{"prefix": table.location, "config": config}] if config else []


def _vended(catalog: Catalog, table: FoundTable, *, writes: bool) -> dict[str, str]:
    return iceberg_names(
        catalog.vending.options(table.location, table.storage_options, writes=writes)
    )
