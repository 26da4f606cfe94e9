"""What callers get to open the storage of a table: nothing, unless the operator said so.

The keys with which the server itself opens the storage stay in the server. A vendor makes
short-lived ones for one table and one caller; static ones are handed out only when that is
switched on.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from time import time
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

_SECRET_WORDS: Final = ("key", "secret", "token", "password", "sas", "credential", "account")
_FRESH_FOR_SECONDS: Final = 300
_MOST_REMEMBERED: Final = 10_000
EXPIRES: Final = "expires_at_millis"


class Vendor(Protocol):
    """Makes short-lived storage options for one table; a value, so that workers can share it."""

    def vend(self, location: str, *, writes: bool) -> Mapping[str, str]:
        """Options, in Lance's names, that open this location and nothing else."""


@dataclass(frozen=True)
class StsVendor:
    """Short-lived AWS keys from the Security Token Service, cut down to the table's own prefix."""

    role_arn: str
    region: str | None = None
    seconds: int = 3600
    external_id: str | None = None
    endpoint: str | None = None

    def vend(self, location: str, *, writes: bool) -> Mapping[str, str]:
        """Assume the role with a policy for one prefix of one bucket."""
        import boto3  # only installations that vend through AWS need it

        more = {"ExternalId": self.external_id} if self.external_id else {}
        client: Any = boto3.client("sts", region_name=self.region, endpoint_url=self.endpoint)
        answer = client.assume_role(
            RoleArn=self.role_arn,
            RoleSessionName="lakeroot",
            Policy=json.dumps(policy(location, writes=writes)),
            DurationSeconds=self.seconds,
            **more,
        )["Credentials"]
        options = {
            "aws_access_key_id": answer["AccessKeyId"],
            "aws_secret_access_key": answer["SecretAccessKey"],
            "aws_session_token": answer["SessionToken"],
            EXPIRES: str(int(answer["Expiration"].timestamp() * 1000)),
        }
        return {**options, "aws_region": self.region} if self.region else options


def policy(location: str, *, writes: bool) -> dict[str, Any]:
    """An AWS policy that allows one prefix of one bucket, for reading or also for writing."""
    parts = urlsplit(location)
    bucket, prefix = parts.netloc, parts.path.strip("/")
    actions = ["s3:GetObject"]
    if writes:
        actions += ["s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Action": actions,
                "Resource": [f"arn:aws:s3:::{bucket}/{prefix}/*"],
            },
            {
                "Effect": "Allow",
                "Action": ["s3:ListBucket"],
                "Resource": [f"arn:aws:s3:::{bucket}"],
                "Condition": {"StringLike": {"s3:prefix": [f"{prefix}/*", prefix]}},
            },
        ],
    }


@dataclass(frozen=True)
class Vending:
    """Decides what leaves the server."""

    own: Mapping[str, str] = field(default_factory=dict)
    share_own: bool = False
    vendor: Vendor | None = None
    _made: dict[tuple[str, bool], dict[str, str]] = field(default_factory=dict, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    @property
    def lends_nothing(self) -> bool:
        """Tell whether a caller gets no more than what the catalog vends itself."""
        return not self.share_own and self.vendor is None

    def options(
        self, location: str, offered: Mapping[str, str] | None, *, writes: bool
    ) -> dict[str, str]:
        """What the caller gets: what the catalog vends itself, never the server's own secrets."""
        found = {k: v for k, v in (offered or {}).items() if self.own.get(k) != v}
        if self.share_own:
            return {**self.own, **found}
        if self.vendor is None:
            return found
        open_to_all = {k: v for k, v in self.own.items() if not _is_secret(k)}
        return {**open_to_all, **found, **self._vended(self.vendor, location, writes=writes)}

    def _vended(self, vendor: Vendor, location: str, *, writes: bool) -> dict[str, str]:
        with self._lock:
            known = self._made.get((location, writes), {})
        if float(known.get(EXPIRES, 0)) / 1000 > time() + _FRESH_FOR_SECONDS:
            return known
        made = dict(vendor.vend(location, writes=writes))
        with self._lock:
            if len(self._made) >= _MOST_REMEMBERED:
                self._made.clear()
            self._made[location, writes] = made
        return made


def _is_secret(name: str) -> bool:
    return any(word in name.lower() for word in _SECRET_WORDS)
