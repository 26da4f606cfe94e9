"""Many commits at once that only add names: for those who have them all in one hand.

Threads that commit at the same time share a version already, but each of them has to be woken.
Whoever holds many commits, as a server does, gives them to one thread, and pays for one wake.
"""

import contextlib
from collections.abc import Callable, Sequence

from lakeroot.model.commits import Commit, Committed, CreateNamespace, DeclareTable
from lakeroot.model.errors import LakerootError
from lakeroot.objects import Objects
from lakeroot.storage.contract import View
from lakeroot.storage.lance_dir.commits import Committer, Pending
from lakeroot.storage.lance_dir.markers import Markers


def only_adds(commit: Commit) -> bool:
    """Tell whether a commit takes no name and no directory from anybody."""
    return all(isinstance(change, DeclareTable | CreateNamespace) for change in commit.changes)


def one_by_one(
    commit: Callable[[Commit], Committed], commits: Sequence[Commit]
) -> list[Committed | LakerootError]:
    """Apply them in turn."""
    outcomes: list[Committed | LakerootError] = []
    for one in commits:
        try:
            outcomes.append(commit(one))
        except LakerootError as error:
            outcomes.append(error)
    return outcomes


def together(
    objects: Objects, committer: Committer, read: Callable[[], View], commits: Sequence[Commit]
) -> list[Committed | LakerootError]:
    """Apply them in one version of the manifest, together with whoever else is waiting."""
    pendings: list[Pending] = []
    markers: list[Markers] = []
    for commit in commits:
        markers.append(Markers(objects, commit, {}, ()))
        pendings.append(Pending(commit, before=markers[-1].put))
    try:
        committer.commit_each(pendings)
    finally:
        for pending, marker in zip(pendings, markers, strict=True):
            if pending.outcome is None:
                with contextlib.suppress(LakerootError):
                    marker.take_back(read())
    return [pending.result() for pending in pendings]
