"""A bucket that refuses says why, in a line that can be acted on."""

import pytest
from lance_namespace.errors import (
    InvalidInputError,
    LanceNamespaceError,
    UnauthenticatedError,
)

import lakeroot
from tests.s3 import BUCKET, S3


@pytest.mark.parametrize(
    ("root", "changed", "error", "said"),
    [
        (BUCKET, {"storage.secret_access_key": "other"}, UnauthenticatedError, "SignatureDoes"),
        (BUCKET, {"storage.access_key_id": "nobody"}, UnauthenticatedError, "InvalidAccessKey"),
        ("no-bucket", {}, InvalidInputError, "there is no such bucket"),
    ],
)
def test_wrong_keys_and_missing_buckets_are_called_that(
    s3: S3, root: str, changed: dict[str, str], error: type[LanceNamespaceError], said: str
) -> None:
    catalog = lakeroot.DirectoryNamespace(root=f"s3://{root}/x", **{**s3.properties, **changed})
    with pytest.raises(error, match=said) as failed:
        catalog.list_namespaces({"id": []})
    assert "xml" not in str(failed.value)
    assert "reached" not in str(failed.value)
