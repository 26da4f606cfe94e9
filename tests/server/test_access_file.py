"""The access file, made by commands and by hand, and taken while the server runs."""

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lakeroot.cli import main
from lakeroot.model.errors import InvalidInputError
from lakeroot.server.identity.access import Role
from lakeroot.server.identity.access_file import add_grant, add_token, remove_token
from lakeroot.server.identity.policy import Grant, read_policy
from lakeroot.server.identity.tokens import Tokens, hash_of
from tests.server.http import Client

Run = Callable[..., tuple[int, str, str]]
LIST = "/v1/namespace/%24/list"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "etc" / "access.toml"


@pytest.fixture
def run(file: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = 0
        try:
            main([*arguments, "-f", str(file)])
        except SystemExit as stop:
            code = int(stop.code or 0)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def test_tokens_and_grants_come_and_go(run: Run, file: Path) -> None:
    code, out, _ = run("token", "create", "etl", "--expires", "90d")
    assert code == 0
    token = out.strip()
    policy = read_policy(file)
    assert policy.tokens[0].sha256 == hash_of(token)
    assert Tokens(policy.tokens).found(token) is not None
    assert run("grant", "add", "writer", "token:etl", 'prod."a.b"')[0] == 0
    assert run("grant", "add", "reader", "group:sales", "--everything")[0] == 0
    assert read_policy(file).grants == (
        Grant("token:etl", Role.WRITER, ("prod", "a.b")),
        Grant("group:sales", Role.READER, ()),
    )
    listed = json.loads(run("-o", "json", "grant", "list")[1])
    assert [one["on"] for one in listed] == ['prod."a.b"', "everything"]
    (shown,) = json.loads(run("-o", "json", "token", "list")[1])
    assert shown["token"] == "etl"
    assert hash_of(token).startswith(shown["hash begins"])
    assert run("grant", "revoke", "-y", "token:etl", 'prod."a.b"')[0] == 0
    assert run("token", "revoke", "-y", "etl")[0] == 0
    assert read_policy(file).grants == (Grant("group:sales", Role.READER, ()),)
    assert read_policy(file).tokens == ()


def test_revoking_asks_first_and_can_be_tried(run: Run, file: Path) -> None:
    run("token", "create", "etl")
    run("grant", "add", "reader", "token:etl", "prod")
    before = file.read_text()

    assert run("token", "revoke", "etl", "--dry-run")[:2] == (0, "Would revoke etl.\n")
    tried = run("-o", "json", "grant", "revoke", "token:etl", "prod", "--dry-run")
    assert json.loads(tried[1]) == {"revoked": "token:etl", "grants": 1, "dry_run": True}
    assert run("token", "revoke", "etl")[0] != 0  # Nobody is there to agree.
    assert run("grant", "revoke", "token:etl", "prod")[0] != 0

    assert file.read_text() == before


def test_a_token_is_changed_for_another_without_a_gap(run: Run, file: Path) -> None:
    old = run("token", "create", "etl")[1].strip()
    assert run("token", "create", "etl")[0] == 4
    new = json.loads(run("-o", "json", "token", "create", "etl", "--another")[1])["token"]
    both = Tokens(read_policy(file).tokens)
    assert both.found(old)
    assert both.found(new)
    assert run("token", "revoke", "-y", "etl", "--hash", hash_of(old)[:12])[0] == 0
    left = Tokens(read_policy(file).tokens)
    assert not left.found(old)
    assert left.found(new)


def test_what_a_person_wrote_stays_as_it_is(run: Run, file: Path) -> None:
    file.parent.mkdir()
    by_hand = (
        "# Ask Ada before you change this.\n\n"
        '[oidc] # our own\nissuer = "https://login.example.com"\naudience = "lakeroot"\n\n'
        '[[grants]]\nto = "group:sales"\nrole = "reader"\non = [\n  "prod", # all of it\n]'
    )
    file.write_text(by_hand)
    file.chmod(0o640)
    assert run("token", "create", "etl")[0] == 0
    assert run("grant", "add", "admin", "token:etl", "--everything")[0] == 0
    assert file.read_text().startswith(by_hand)
    assert run("grant", "revoke", "-y", "token:etl", "--everything")[0] == 0
    assert run("token", "revoke", "-y", "etl")[0] == 0
    assert file.read_text().strip() == by_hand
    assert file.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["token", "create", "a b"], 2, "is not a name"),
        (["token", "create", 'x"\nsha256="1'], 2, "is not a name"),
        (["token", "create", "x", "--expires", "yesterday"], 2, "is not a moment"),
        (["token", "create", "x", "--expires", "2001-01-01"], 2, "never be good"),
        (["token", "create", "x", "--expires", "99999w"], 0, ""),
        (["token", "revoke", "nobody"], 3, "no such token"),
        (["grant", "add", "owner", "token:etl", "prod"], 2, "owner"),
        (["grant", "add", "reader", "etl", "prod"], 2, "names nobody"),
        (["grant", "add", "reader", "token:nobody", "prod"], 3, "Make it first"),
        (["grant", "add", "reader", "token:etl"], 2, "--everything"),
        (["grant", "add", "reader", "token:etl", "prod", "--everything"], 2, "on one thing"),
        (["grant", "add", "reader", "token:etl", 'a."b'], 2, "is not a name"),
        (["grant", "revoke", "token:etl", "prod"], 3, "no such grant"),
    ],
)
def test_bad_input_changes_nothing(
    run: Run, file: Path, arguments: list[str], code: int, words: str
) -> None:
    assert run("token", "create", "etl")[0] == 0
    before = file.read_text()
    found, _, err = run(*arguments)
    assert (found, "Traceback" in err) == (code, False), err
    assert words in err
    assert code == 0 or file.read_text() == before


def test_a_file_that_is_not_understood_is_not_touched(run: Run, file: Path) -> None:
    file.parent.mkdir()
    for text in (
        "[[tokens]\n",
        'tokens = "all"\n',
        "[[tokens]]\nname = 1\n",
        '[[grants]]\nto = "anyone"\nrole = "reader"\non = "prod"\n',
        "[server]\nport = 1\n",
    ):
        file.write_text(text)
        assert run("token", "create", "etl")[0] == 2
        assert run("token", "list")[0] == 2
        assert file.read_text() == text
    inline = (
        f'tokens = [{{name = "etl", sha256 = "{"0" * 64}"}}, {{name="b", sha256="{"1" * 64}"}}]\n'
    )
    file.write_text(inline)
    with pytest.raises(InvalidInputError, match="cannot change"):
        remove_token(file, "etl")
    assert file.read_text() == inline


def test_two_who_change_it_at_once_both_find_their_change_kept(file: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        tokens = list(pool.map(lambda n: add_token(file, f"t{n}"), range(40)))
    kept = Tokens(read_policy(file).tokens)
    assert all(kept.found(token) for token in tokens)
    assert sorted(file.parent.iterdir()) == [file]


def test_a_running_server_takes_a_changed_file_and_keeps_the_last_good_one(
    start: Callable[..., str], file: Path
) -> None:
    first = add_token(file, "first")
    add_grant(file, Grant("token:first", Role.ADMIN, ()))
    url = start(access_file=file)

    def status(token: str) -> int:
        return Client(url, {"authorization": f"Bearer {token}"}).get(LIST).status

    def becomes(token: str, wanted: int) -> None:
        deadline = time.monotonic() + 300
        while status(token) != wanted:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    second = add_token(file, "second")
    add_grant(file, Grant("token:second", Role.READER, ()))
    becomes(second, 200)
    good = file.read_text()
    file.write_text("[[tokens]\n")
    time.sleep(1.5)  # long enough to be seen; what holds must not change
    assert (status(first), status(second)) == (200, 200)
    file.write_text(good)
    remove_token(file, "first")
    becomes(first, 401)
    assert status(second) == 200
