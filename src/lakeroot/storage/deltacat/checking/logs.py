"""Is the commit log whole, and is everything done that it has decided."""

from collections.abc import Iterator

from lakeroot.metastore import checkpoints, naming, txnlogs
from lakeroot.metastore.entries import unseal
from lakeroot.metastore.vacuum import DAY_MS
from lakeroot.storage.deltacat.checking.findings import finding
from lakeroot.storage.deltacat.checking.survey import Survey
from lakeroot.storage.findings import Finding


def examine_log(survey: Survey) -> Iterator[Finding]:
    """Look at the entries of the log, at its checkpoints, and at the success logs it leads to."""
    yield from _entries(survey)
    yield from _checkpoints(survey)
    for txn_id, number in sorted(survey.unpublished.items(), key=lambda one: one[1]):
        is_newest = number == survey.index.head
        if is_newest and survey.log_files[number].modified_ms > survey.cutoff_ms:
            continue  # Its writer may be publishing it right now.
        yield finding(
            "commit-unpublished",
            txn_id,
            f"Clients without the log do not see the transaction {txn_id}",
            "its success log is missing; its writer died, or the file was lost",
            path=naming.commit_path(number),
            version=number,
        )


def _entries(survey: Survey) -> Iterator[Finding]:
    numbers = survey.log_files
    for number in range(max(numbers, default=-1)):
        if number not in numbers and not survey.objects.exists(naming.commit_path(number)):
            yield _entry("log-gap", number, "it is missing, and others come after it")
    for number, entry in survey.entries.items():
        if entry is None and survey.objects.exists(naming.commit_path(number)):
            yield _entry("log-entry-damaged", number, "its checksum is wrong; readers skip it")


def _entry(code: str, number: int, why: str) -> Finding:
    path = naming.commit_path(number)
    return finding(code, path, f"Entry {number} of the log cannot be read", why, path=path)


def _checkpoints(survey: Survey) -> Iterator[Finding]:
    listed = survey.objects.list_directory(naming.CHECKPOINTS).objects
    paths = sorted(info.path for info in listed if info.path != naming.LATEST_CHECKPOINT)
    wrong: dict[str, str] = {}
    for path in paths:
        content = survey.objects.get(path)
        if content is not None and checkpoints.decode_index(content) is None:
            wrong[path] = "its checksum is wrong"
    pointer = survey.objects.get(naming.LATEST_CHECKPOINT)
    if pointer is not None:
        said = unseal(pointer)
        if said is None:
            wrong[naming.LATEST_CHECKPOINT] = "its checksum is wrong"
        elif not survey.objects.exists(naming.checkpoint_path(said["sequence"])):
            wrong[naming.LATEST_CHECKPOINT] = f"there is no checkpoint {said['sequence']}"
    for path, why in wrong.items():
        what = "A checkpoint cannot be used, and opening the catalog is slow"
        yield finding("checkpoint-damaged", path, what, why, path=path)


def examine_transactions(survey: Survey) -> Iterator[Finding]:
    """Look at the transactions that have announced themselves."""
    for txn_id, info in sorted(survey.running.items()):
        age_ms = survey.now_ms - info.modified_ms
        if txn_id in survey.index.sequences or txn_id in survey.index.fenced:
            if age_ms >= survey.grace_ms:
                what = f"The transaction {txn_id} has ended, and still looks as if it ran"
                why = "its writer died before it could say so"
                yield finding("leftover-lease", txn_id, what, why, path=info.path)
            continue
        lease = txnlogs.read_log(survey.objects.get(info.path)).get("lease") or {}
        if age_ms > max(lease.get("ttl_ms", DAY_MS), survey.grace_ms):
            yield finding(
                "transaction-expired",
                txn_id,
                f"The transaction {txn_id} will never end",
                f"it gave no sign of life for {age_ms // 60_000} minutes",
                path=info.path,
            )
