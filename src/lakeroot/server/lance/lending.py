"""Storage options in the answers of Lance REST: only what may leave the server."""

from typing import Any

from lakeroot.model.identifiers import Identifier
from lakeroot.server.identity.access import Access, Role
from lakeroot.server.vending import Vending


def lent(vending: Vending, access: Access, identifier: Identifier, asked: Any, answer: Any) -> Any:
    """Put what the caller may have in place of the options in an answer."""
    if answer.storage_options is None and vending.lends_nothing:
        return answer
    options: dict[str, str] = {}
    if getattr(asked, "vend_credentials", None) is not False:
        writes = access.allows(identifier, Role.WRITER)
        options = vending.options(answer.location or "", answer.storage_options, writes=writes)
    if (options or None) == answer.storage_options:
        return answer
    return answer.model_copy(update={"storage_options": options or None})


def lent_to_members(vending: Vending, access: Access, asked: Any, answer: Any) -> Any:
    """Do the same for everything that a batch declared."""
    parts = [
        _member(vending, access, operation, result)
        for operation, result in zip(asked.operations, answer.results, strict=True)
    ]
    return answer.model_copy(update={"results": parts})


def _member(vending: Vending, access: Access, operation: Any, result: Any) -> Any:
    request, declared = operation.declare_table, result.declare_table
    if request is None or declared is None:
        return result
    clean = lent(vending, access, tuple(request.id or ()), request, declared)
    return result.model_copy(update={"declare_table": clean})
