"""One byte of a file of the server is another, or its end is lost: nobody gets more rights."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakeroot.model.errors import InvalidInputError
from lakeroot.server.iceberg.mirror import MirroredVersion, MirrorFile, _from_json
from lakeroot.server.identity.access import Role
from lakeroot.server.identity.access_file import add_grant, add_token, remove_grant, remove_token
from lakeroot.server.identity.policy import Grant, Policy, parse_policy, read_policy
from lakeroot.server.metrics import Metrics

OTHERS = (0xFF, *b'"\n#a1')
THEN = datetime(2030, 1, 1, tzinfo=UTC)
ISSUER = """
[oidc]
issuer = "https://login.example.com"
audience = "lakeroot"
algorithms = ["RS256"]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """An access file with an entry of every kind."""
    made = tmp_path / "access.toml"
    add_token(made, "etl", expires=THEN)
    add_token(made, "ana")
    add_grant(made, Grant("token:etl", Role.WRITER, ("prod", "users")))
    add_grant(made, Grant("group:sales", Role.READER, ("prod",)))
    made.write_text(made.read_text() + ISSUER)
    return made


def damaged(content: bytes) -> Iterator[bytes]:
    """Another byte at every place."""
    for place in range(len(content)):
        for other in OTHERS:
            if content[place] != other:
                yield content[:place] + bytes([other]) + content[place + 1 :]


def taken(file: Path, content: bytes) -> Policy | None:
    """What a server understands; nothing if it says that the file is not valid."""
    file.write_bytes(content)
    try:
        return read_policy(file)
    except InvalidInputError:
        return None


def test_one_byte_of_an_access_file_is_refused_or_changes_one_entry_and_gives_nobody_more(
    file: Path,
) -> None:
    whole = read_policy(file)
    refused = 0
    for content in damaged(file.read_bytes()):
        found = taken(file, content)
        if found is None:
            refused += 1
            continue
        # A file that people write has no checksum: a letter of a name may be another, or a line
        # become a comment. But no role is higher, and no grant on more than it was on.
        assert len(found.grants) == len(whole.grants)
        different = [pair for pair in zip(found.grants, whole.grants, strict=True) if ne(pair)]
        changed = [one for one in found.tokens if one not in whole.tokens]
        assert len(different) + len(changed) + (found.issuer != whole.issuer) <= 1
        for now, before in different:
            assert now.role == before.role
            assert len(now.on) >= len(before.on)
            assert now.to != "anyone"
        names = {one.name for one in whole.tokens}
        assert all((one.name in names) or one.sha256 in hashes(whole) for one in changed)
    assert refused > len(file.read_bytes())


def ne(pair: tuple[Grant, Grant]) -> bool:
    return pair[0] != pair[1]


def hashes(policy: Policy) -> set[str]:
    return {one.sha256 for one in policy.tokens}


def test_an_access_file_that_lost_its_end_gives_nobody_more(file: Path) -> None:
    content = file.read_bytes()
    whole = read_policy(file)
    understood = 0
    for end in range(len(content)):
        found = taken(file, content[:end])
        if found is None:
            continue
        understood += 1
        assert set(found.tokens) <= set(whole.tokens)
        assert set(found.grants) <= set(whole.grants)
    assert understood


@pytest.mark.parametrize(
    "act",
    [
        lambda file: add_token(file, "new"),
        lambda file: remove_token(file, "etl"),
        lambda file: remove_token(file, "etl", dry_run=True),
        lambda file: add_grant(file, Grant("token:etl", Role.ADMIN, ())),
        lambda file: remove_grant(file, "token:etl", None, ("prod", "users")),
    ],
)
def test_a_command_changes_no_access_file_that_it_cannot_read(
    file: Path, act: Callable[[Path], object]
) -> None:
    for content in (b"\xff" + file.read_bytes(), b"[[tokens]\n", b"tokens = 3\n"):
        file.write_bytes(content)
        with pytest.raises(InvalidInputError):
            act(file)
        assert file.read_bytes() == content


@pytest.mark.parametrize(
    "line",
    [
        "algorithms = 5",
        'algorithms = "RS256"',
        "algorithms = [5]",
        "algorithms = []",
        'algorithms = ["none"]',
        "jwks_uri = 5",
        'name_claim = ""',
        "groups_claim = []",
    ],
)
def test_an_issuer_that_is_not_understood_is_no_issuer(line: str) -> None:
    kept = [one for one in ISSUER.splitlines() if not one.startswith(line.partition(" ")[0])]
    with pytest.raises(InvalidInputError):
        parse_policy("\n".join([*kept, line]))


RECORD = MirroredVersion(
    3, "/t/_iceberg/m.avro", {"fields": []}, {"a": 1}, 1, {"k": MirrorFile("/p", 10, 99)}
)


def test_one_byte_of_a_record_of_the_mirror_makes_it_no_record() -> None:
    whole = RECORD.to_json()
    assert _from_json(whole) == RECORD
    for content in damaged(whole):
        assert _from_json(content) in (None, RECORD)
    for end in range(len(whole)):
        assert _from_json(whole[:end]) is None


def test_a_record_of_an_earlier_release_is_taken() -> None:
    plain = json.loads(RECORD.to_json())
    del plain["crc32"]
    assert _from_json(json.dumps(plain).encode()) == RECORD


def test_numbers_of_a_worker_that_are_damaged_are_left_out(tmp_path: Path) -> None:
    for name, content in (("1", b"{"), ("2", b"\xff"), ("3", b"")):
        (tmp_path / f"{name}.json").write_bytes(content)
    metrics = Metrics(tmp_path)
    metrics.count("lance", "ListTables", 200, 0.1)
    assert 'status="200"} 1' in metrics.text()
