"""What the faces of the server share: the catalog, its threads, its limits, its audit."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from lance_namespace import LanceNamespace

from lakeroot.model.errors import LakerootError
from lakeroot.server.calls import Caller
from lakeroot.server.limits import Limits
from lakeroot.server.logs import AuditLog
from lakeroot.server.problems import as_error
from lakeroot.server.vending import Vending
from lakeroot.server.wire import Request

T = TypeVar("T")


def audited(request: Request) -> dict[str, str]:
    """What the audit log holds of a request."""
    return {
        "request": request.id,
        "principal": request.access.principal,
        "client": request.client,
        "operation": request.operation,
        "object": request.target,
    }


@dataclass(frozen=True, slots=True)
class Backend:
    """One catalog, opened once per worker."""

    namespace: LanceNamespace
    caller: Caller
    limits: Limits
    audit: AuditLog | None = None
    vending: Vending = field(default_factory=Vending)

    async def read(self, work: Callable[[], T], quick: str | None = None) -> T:
        """Ask the catalog something."""
        return await self.caller.run(work, quick)

    async def change(self, request: Request, work: Callable[[], T]) -> T:
        """Change the catalog; the attempt is on record before, the outcome after."""
        request.changes = True
        audit = self.audit
        if audit is None:
            return await self.caller.run(work)
        fields = audited(request)

        def recorded() -> T:
            # Inside the thread, so that the outcome is on record even if nobody waits for it.
            audit.write("attempt", fields)
            try:
                result = work()
            except Exception as problem:
                error: LakerootError = as_error(problem, request.id)
                audit.write("failed", {**fields, "code": error.code})
                raise
            audit.write("done", fields)
            return result

        return await self.caller.run(recorded)
