"""Lists for callers who may see only a part: filtered first, then cut into pages."""

from collections.abc import Callable, Sequence
from typing import Any

from lance_namespace import (
    DescribeTableRequest,
    LanceNamespace,
    ListNamespacesResponse,
    ListTablesRequest,
    ListTablesResponse,
    NamespaceExistsRequest,
    TableExistsRequest,
)
from lance_namespace.errors import LanceNamespaceError

from lakeroot.model.errors import InvalidInputError, NotFoundError
from lakeroot.model.identifiers import DELIMITER, Identifier
from lakeroot.server.identity.access import Access

_PAGE_OF_ALL = 1000


def needs_filter(access: Access, parent: Identifier) -> bool:
    """Tell whether the caller sees only a part of what is in a namespace."""
    return access.role_on(parent) is None


def namespaces_for(namespace: LanceNamespace, request: Any, access: Access) -> Any:
    """The child namespaces of a namespace, as far as the caller may see them."""
    if needs_filter(access, tuple(request.id or ())):
        return namespaces_seen(namespace, request, access)
    return namespace.list_namespaces(request)


def tables_for(namespace: LanceNamespace, request: Any, access: Access) -> Any:
    """The tables of a namespace, as far as the caller may see them."""
    if needs_filter(access, tuple(request.id or ())):
        return tables_seen(namespace, request, access)
    return namespace.list_tables(request)


def whole(
    fetch: Callable[[str | None, int], Any], after: str | None, limit: int | None
) -> tuple[list[str], str | None]:
    """Fetch one page, or with no limit every page; gives the names and the next page's token."""
    names: list[str] = []
    while True:
        answer = fetch(after, limit or _PAGE_OF_ALL)
        names += answer.tables if hasattr(answer, "tables") else answer.namespaces
        after = answer.page_token or None
        if limit is not None or after is None:
            return names, after


def namespaces_seen(
    namespace: LanceNamespace, request: Any, access: Access
) -> ListNamespacesResponse:
    """The child namespaces that lead to something granted to the caller."""
    parent = list(request.id or [])
    names = [
        name
        for name in access.children(tuple(parent))
        if _exists(lambda i: namespace.namespace_exists(NamespaceExistsRequest(id=i)), parent, name)
    ]
    page, token = page_of(names, request.page_token, request.limit)
    return ListNamespacesResponse(namespaces=page, page_token=token)


def tables_seen(namespace: LanceNamespace, request: Any, access: Access) -> ListTablesResponse:
    """The tables of a namespace that are granted to the caller one by one."""
    parent = list(request.id or [])
    names = []
    for name in access.children(tuple(parent)):
        if access.role_on((*parent, name)) is None or not _exists(
            lambda i: namespace.table_exists(TableExistsRequest(id=i)), parent, name
        ):
            continue
        if request.include_declared is False:
            asked = DescribeTableRequest(id=[*parent, name], check_declared=True)
            if namespace.describe_table(asked).is_only_declared:
                continue
        names.append(name)
    page, token = page_of(names, request.page_token, request.limit)
    return ListTablesResponse(tables=page, page_token=token)


def all_tables_seen(namespace: LanceNamespace, request: Any, access: Access) -> ListTablesResponse:
    """The tables of the whole catalog that the caller may read."""
    names: list[str] = []
    token: str | None = None
    while True:
        answer = namespace.list_all_tables(
            ListTablesRequest(
                page_token=token, limit=_PAGE_OF_ALL, include_declared=request.include_declared
            )
        )
        names += [n for n in answer.tables if access.role_on(tuple(n.split(DELIMITER)))]
        token = answer.page_token
        if not token:
            break
    page, token = page_of(sorted(names), request.page_token, request.limit)
    return ListTablesResponse(tables=page, page_token=token)


def page_of(
    names: Sequence[str], after: str | None, limit: int | None
) -> tuple[list[str], str | None]:
    """One page of sorted names; the token is the last name of the page before."""
    if limit is not None and limit < 0:
        raise InvalidInputError("The limit of a page cannot be negative")
    rest = [name for name in names if not after or name > after]
    if limit is None or len(rest) <= limit:
        return rest, None
    page = rest[:limit]
    return page, page[-1] if page else None


def _exists(ask: Callable[[list[str]], object], parent: list[str], name: str) -> bool:
    try:
        ask([*parent, name])
    except (LanceNamespaceError, NotFoundError) as problem:
        if int(problem.code) in (1, 4):
            return False
        raise
    return True
