"""Recovery: commits whose entries in the log were damaged or removed after they were published.

The success log of a transaction, which others read, says which files it wrote. So a commit whose
entry cannot be read any more can be given a place in the log anew. An entry that was torn before
anything was published has no success log, and stays what it is: nothing.
"""

from lakeroot.metastore import foreign, naming
from lakeroot.metastore.entries import Entry
from lakeroot.metastore.index import Index
from lakeroot.metastore.naming import Layout, SuccessPath
from lakeroot.metastore.txnlogs import end_time_in
from lakeroot.objects import Objects


def lost_commits(objects: Objects, index: Index) -> list[Entry]:
    """Find the transactions that succeeded and are not in the index, in the order they ended."""
    if index.layout is Layout.SPEC:
        infos = list(objects.list_directory("txn").objects)
    else:
        infos = list(objects.list("txn/success"))
    found = [
        path for info in infos if isinstance(path := naming.understand(info.path), SuccessPath)
    ]
    unknown = [path for path in found if path.txn_id not in index.sequences]
    ended = [path._replace(end_time=_end_time(objects, path)) for path in unknown]
    # What is older than the history that is kept has been forgotten on purpose.
    kept = [path for path in ended if (path.end_time or 0) > index.horizon_time()]
    kept.sort(key=lambda path: (path.end_time or 0, path.txn_id))
    return [foreign.adoption(objects, path, index.layout) for path in kept]


def has_gap(objects: Objects, head: int) -> bool:
    """Tell whether the log goes on behind a number that is missing."""
    missing = naming.commit_path(head + 1)
    names = objects.list_names(naming.commit_directory(head + 1))
    is_followed = any(name > missing.rpartition("/")[2] for name in names if name.isdigit())
    # Others may have written both numbers since: the log is dense, so a second look decides.
    return is_followed and not objects.exists(missing)


def _end_time(objects: Objects, path: SuccessPath) -> int:
    if path.end_time is not None:
        return path.end_time
    recorded = end_time_in(objects.get(path.path))
    return naming.start_time(path.txn_id) if recorded is None else recorded
