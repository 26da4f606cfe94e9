"""A catalog as seen from one of its namespaces, which an Iceberg catalog needs for every table."""

from collections.abc import Callable
from typing import Any

from lance_namespace import LanceNamespace

# What may be asked of the root; anything else about it is the same mistake at the true root.
_OF_THE_ROOT = {"list_namespaces", "list_tables", "describe_namespace", "namespace_exists"}


class Under:
    """Passes every request on with the names of a parent before its own."""

    def __init__(self, client: LanceNamespace, parent: str) -> None:
        self._client = client
        self._parent = parent

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if name == "catalog":
            return _UnderCatalog(found, self._parent)
        return self._passed_on(name, found) if callable(found) else found

    def _passed_on(self, name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            request, *more = arguments or (None,)
            if arguments and not (_is_about_nothing(request) and name not in _OF_THE_ROOT):
                request = self._below(request)
            answer = operation(*(request, *more) if arguments else (), **named)
            return self._above(name, answer)

        return call

    def _below(self, request: Any) -> Any:
        if isinstance(request, dict):
            changed = {"id": self._names(request.get("id"))} if _is_plain(request) else {}
            copy = type(request)(request)
            copy.update(changed)
            return copy
        if not hasattr(request, "id"):
            return request
        changed = {"id": self._names(request.id)}
        if getattr(request, "new_namespace_id", None) is not None:
            changed["new_namespace_id"] = self._names(request.new_namespace_id)
        return request.model_copy(update=changed)

    def _names(self, names: Any) -> Any:
        return [self._parent, *(names or [])]

    def _above(self, name: str, answer: Any) -> Any:
        if name == "list_all_tables":
            prefix = f"{self._parent}$"
            answer.tables = [t.removeprefix(prefix) for t in answer.tables if t.startswith(prefix)]
        for key in ("id", "namespace"):
            names = getattr(answer, key, None)
            if isinstance(names, list) and names[:1] == [self._parent]:
                setattr(answer, key, names[1:])
        return answer


class _UnderCatalog:
    """The same for the verbs of the catalog, which take identifiers."""

    def __init__(self, catalog: Any, parent: str) -> None:
        self._catalog = catalog
        self._parent = parent

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._catalog, name)
        if not callable(found) or name == "store":
            return found
        return lambda *arguments, **named: found(*map(self._below, arguments), **named)

    def _below(self, argument: Any) -> Any:
        if isinstance(argument, list):
            return [(self._below(identifier), *more) for identifier, *more in argument]
        return (self._parent, *argument) if isinstance(argument, tuple) else argument


def _is_about_nothing(request: Any) -> bool:
    """Tell whether a request names nothing, which means the root or is a mistake."""
    names = request.get("id") if isinstance(request, dict) else getattr(request, "id", None)
    return names is None or names == []


def _is_plain(request: dict[str, Any]) -> bool:
    return request.get("id") is None or isinstance(request["id"], list)
