"""What the tests of this folder share: one SeaweedFS, in one worker."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/iceberg" in item.nodeid and "catalog" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("iceberg-catalog"))
        cannot = getattr(getattr(item, "module", None), "cannot", None)
        if cannot is not None and isinstance(item, pytest.Function):
            declared = cannot(item.originalname)
            if declared is not None:
                raises, reason = declared
                item.add_marker(pytest.mark.xfail(raises=raises, reason=reason, strict=True))
