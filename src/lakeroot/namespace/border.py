"""The border of the Lance ecosystem: requests are read here, errors are translated here."""

import difflib
import functools
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, get_args

import lance_namespace
import pydantic
from lance_namespace import LanceNamespaceError
from lance_namespace_urllib3_client.models import (
    QueryTableRequestColumns,
    QueryTableRequestVector,
)

from lakeroot.model import errors
from lakeroot.model.errors import InvalidInputError, LakerootError

Request = TypeVar("Request", bound=pydantic.BaseModel)
Response = TypeVar("Response")
Self = TypeVar("Self")
More = ParamSpec("More")

_LOG: Final = logging.getLogger(__name__)


class TableVersionAlreadyExistsError(lance_namespace.ConcurrentModificationError):
    """Another writer has already committed this version of the table."""


def error_class(error: type[LakerootError]) -> type[LanceNamespaceError]:
    """Find the ecosystem's class for one of our errors."""
    if issubclass(error, errors.TableVersionAlreadyExistsError):
        return TableVersionAlreadyExistsError
    if issubclass(error, errors.VersionsNotKeptError):
        return lance_namespace.ConcurrentModificationError
    for parent in error.__mro__:
        found = getattr(lance_namespace, parent.__name__, None)
        if isinstance(found, type) and issubclass(found, LanceNamespaceError):
            return found
    return lance_namespace.InternalError


def ecosystem_error(error: LakerootError) -> LanceNamespaceError:
    """Say one of our errors in the ecosystem's words."""
    return error_class(type(error))(str(error))


class translated:  # noqa: N801 (reads as a word in a with statement)
    """Say errors of ours in the ecosystem's words, whatever happens inside this block."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, _: Any) -> None:
        if isinstance(error, LakerootError):
            raise ecosystem_error(error) from error


def read(model: type[Request], request: object) -> Request:
    """Read a request: a model, or a dictionary as some clients send it."""
    if isinstance(request, model):
        return request
    if isinstance(request, pydantic.BaseModel):
        request = request.model_dump(by_alias=True, exclude_none=True)
    elif isinstance(request, Mapping):
        check_keys(model, request)
    if not isinstance(request, Mapping):
        raise InvalidInputError(f"A {model.__name__} is expected, not a {type(request).__name__}")
    try:
        given = {k: v for k, v in request.items() if v is not None}
        return model.model_validate(completed(model, given))
    except pydantic.ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors()
        )
        raise InvalidInputError(f"This is not a {model.__name__}", problems) from error


def check_keys(model: type[pydantic.BaseModel], given: Iterable[str]) -> None:
    """Refuse a key that is a field of the model misspelt: without it, a request means another.

    An update without its predicate changes every row. Keys that resemble no field that was left
    out are passed over, as the specification asks: they may be those of newer clients. A mapping
    is looked at with all that is inside: a query whose `vector` says nothing is another query.
    """
    pending = [(model, given)]
    while pending:
        model, given = pending.pop()
        _check_own_keys(model, given)
        if isinstance(given, Mapping):
            pending += _inside(model, given)


def _check_own_keys(model: type[pydantic.BaseModel], given: Iterable[str]) -> None:
    fields = _fields(model)
    if fields.issuperset(given):
        return
    left_out = sorted(fields.difference(given))
    for key in given:
        if key in fields or not isinstance(key, str):
            continue
        # They are written with underscores; in some languages they are called vectorColumn.
        plain = _HUMP.sub("_", key).lower().replace("-", "_")
        if near := difflib.get_close_matches(plain, left_out, 1, _ALIKE):
            raise InvalidInputError(
                f"A {model.__name__} has no field {key!r}",
                "nothing would be done with it",
                f"Write {near[0]!r}",
            )
    if model in _CHOICES and fields.isdisjoint(given):
        raise InvalidInputError(
            f"A {model.__name__} has none of the fields {', '.join(map(repr, given))}",
            "nothing would be done with them",
            f"Give one of: {', '.join(sorted(fields))}",
        )


def _inside(
    model: type[pydantic.BaseModel], given: Mapping[str, Any]
) -> list[tuple[type[pydantic.BaseModel], Mapping[str, Any]]]:
    """Give the objects inside of a request, each with the model it is read as."""
    found: list[tuple[type[pydantic.BaseModel], Mapping[str, Any]]] = []
    for key, inner in _objects(model).items():
        value = given.get(key)
        several = value if isinstance(value, list | tuple) else (value,)
        found += [(inner, one) for one in several if isinstance(one, Mapping)]
    return found


def completed(model: type[pydantic.BaseModel], given: dict[str, Any]) -> dict[str, Any]:
    """Give a query without a vector an empty one: its model asks for one, whatever is searched."""
    if model in _SEARCHES:
        if given.get("vector") is None:
            return {**given, "vector": {}}
    elif model is lance_namespace.ExplainTableQueryPlanRequest:
        query = given.get("query")
        if isinstance(query, Mapping) and query.get("vector") is None:
            return {**given, "query": {**query, "vector": {}}}
    return given


_SEARCHES: Final = (
    lance_namespace.QueryTableRequest,
    lance_namespace.AnalyzeTableQueryPlanRequest,
)
_CHOICES: Final = (QueryTableRequestColumns, QueryTableRequestVector)
"""Models that say something in one of several ways, and nothing at all in none of them."""
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ALIKE: Final = 0.8


@functools.cache
def _fields(model: type[pydantic.BaseModel]) -> frozenset[str]:
    aliases = (field.alias for field in model.model_fields.values())
    return frozenset(model.model_fields) | {alias for alias in aliases if alias}


@functools.cache
def _objects(model: type[pydantic.BaseModel]) -> dict[str, type[pydantic.BaseModel]]:
    """Give the fields of a model that hold other models, or lists of them."""
    found = {}
    for name, field in model.model_fields.items():
        if inner := _model_in(field.annotation):
            found[name] = inner
            if field.alias:
                found[field.alias] = inner
    return found


def _model_in(annotation: Any) -> type[pydantic.BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


def operation(
    model: type[Request], *, mirrors_dicts: bool = False
) -> Callable[
    [Callable[Concatenate[Self, Request, More], Response]],
    Callable[Concatenate[Self, Any, More], Response],
]:
    """Make a method an operation of the namespace: its request is read, its errors translated.

    An operation that ``mirrors_dicts`` answers a dictionary with a dictionary: pylance calls the
    operations on versions that way.
    """

    def decorate(
        method: Callable[Concatenate[Self, Request, More], Response],
    ) -> Callable[Concatenate[Self, Any, More], Response]:
        @functools.wraps(method)
        def call(self: Self, request: Any, *args: More.args, **kwargs: More.kwargs) -> Response:
            try:
                response = method(self, read(model, request), *args, **kwargs)
            except LakerootError as error:
                raise ecosystem_error(error) from error
            except LanceNamespaceError:
                raise
            except Exception as error:
                _LOG.exception("%s failed", method.__name__)
                raise lance_namespace.InternalError(
                    f"{method.__name__} failed unexpectedly ({type(error).__name__}). "
                    "This is a defect of Lakeroot; its log has the details"
                ) from error
            if mirrors_dicts and isinstance(request, Mapping):
                plain: Any = response
                return plain.model_dump(by_alias=True, exclude_none=True)  # type: ignore[no-any-return]
            return response

        decorated: Any = call
        return decorated  # type: ignore[no-any-return]

    return decorate
