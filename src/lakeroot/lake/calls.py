"""Calling a namespace of any kind with plain dictionaries."""

from typing import Any


class Asked(dict[str, Any]):
    """A request that reads like a dictionary and like a model: some namespaces want the latter."""

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """Give the fields."""
        return dict(self)


class Calls:
    """The operations of a namespace, for requests that are written as dictionaries."""

    def __init__(self, namespace: Any) -> None:
        self._namespace = namespace

    def __getattr__(self, operation: str) -> Any:
        method = getattr(self._namespace, operation)

        def call(request: dict[str, Any], *more: Any) -> Any:
            return method(Asked(request), *more)

        return call
