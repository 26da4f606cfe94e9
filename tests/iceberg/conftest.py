"""What a catalog cannot do is a strict expectation, which a module declares with `cannot`."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        cannot = getattr(getattr(item, "module", None), "cannot", None)
        if cannot is not None and isinstance(item, pytest.Function):
            declared = cannot(item.originalname)
            if declared is not None:
                raises, reason = declared
                item.add_marker(pytest.mark.xfail(raises=raises, reason=reason, strict=True))
