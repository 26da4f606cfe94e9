"""Commands that make the access file of a server: who may come in, and what they may do."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from lakeroot.cli.naming import DRY_RUN, YES, agreed
from lakeroot.cli.output import form, print_done, print_rows
from lakeroot.model.errors import InvalidInputError
from lakeroot.model.identifiers import Identifier, parse_dotted, show

if TYPE_CHECKING:
    from lakeroot.server.identity.policy import Grant

_UNITS: Final = {"h": "hours", "d": "days", "w": "weeks"}
_FILE = click.option(
    "-f",
    "--access-file",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("access.toml"),
    show_default=True,
    help="The access file.",
)
_ROLE = click.Choice(["reader", "writer", "admin"])
_EVERYTHING = click.option("--everything", is_flag=True, help="On the whole catalog.")


@click.group("token")
def token_group() -> None:
    """Make, list and revoke the tokens of a server; only their hashes are kept."""


@token_group.command("create")
@click.argument("name")
@_FILE
@click.option("--expires", metavar="WHEN", help="A date, a moment, or from now: 12h, 90d, 4w.")
@click.option("--another", is_flag=True, help="A second token of that name, for a rotation.")
@click.pass_context
def create_token(
    ctx: click.Context, name: str, file: Path, expires: str | None, another: bool
) -> None:
    """Make a token and print it, once; it cannot be shown again."""
    from lakeroot.server.identity.access_file import add_token

    until = _moment(expires) if expires else None
    token = add_token(file, name, expires=until, another=another)
    if form(ctx) == "json":
        print_done(ctx, "", name=name, token=token)
        return
    click.echo(token)
    click.echo(f"Kept its hash in {file}. It may do nothing yet: lakeroot grant add …", err=True)


@token_group.command("list")
@_FILE
@click.pass_context
def list_tokens(ctx: click.Context, file: Path) -> None:
    """List the tokens; never the tokens themselves."""
    from lakeroot.server.identity.policy import read_policy

    rows = [
        (kept.name, kept.sha256[:12], kept.expires.isoformat() if kept.expires else "")
        for kept in read_policy(file).tokens
    ]
    print_rows(ctx, ["token", "hash begins", "expires"], rows)


@token_group.command("revoke")
@click.argument("name")
@_FILE
@click.option("--hash", "prefix", default="", metavar="BEGINNING", help="Only the one like this.")
@DRY_RUN
@YES
@click.pass_context
def revoke_token(
    ctx: click.Context, name: str, file: Path, prefix: str, dry_run: bool, yes: bool
) -> None:
    """Take a token away; a running server knows within a second or two."""
    from lakeroot.server.identity.access_file import remove_token

    gone = remove_token(file, name, prefix, dry_run=True)
    if not dry_run:
        agreed(f"Revoke {_counted(gone, 'token')} {name}? Whoever uses it is shut out.", yes=yes)
        gone = remove_token(file, name, prefix)
    done = "Would revoke" if dry_run else "Revoked"
    print_done(ctx, f"{done} {name}.", revoked=name, tokens=gone, dry_run=dry_run)


@click.group("grant")
def grant_group() -> None:
    """Say who may do what: roles on namespaces and tables.

    WHO is token:<name>, oidc:<subject>, group:<name> or anyone. A role on a namespace holds for
    everything inside it.
    """


@grant_group.command("add")
@click.argument("role", type=_ROLE)
@click.argument("who")
@click.argument("name", required=False)
@_EVERYTHING
@_FILE
@click.pass_context
def add(
    ctx: click.Context, role: str, who: str, name: str | None, everything: bool, file: Path
) -> None:
    """Give WHO a role on a namespace or a table, or on --everything."""
    from lakeroot.server.identity.access_file import add_grant

    grant = _grant(who, role, _place(name, everything=everything))
    add_grant(file, grant)
    print_done(ctx, f"{who} is {role} of {_shown(grant.on)}.", to=who, role=role, on=grant.on)


@grant_group.command("list")
@_FILE
@click.pass_context
def list_grants(ctx: click.Context, file: Path) -> None:
    """List who may do what."""
    from lakeroot.server.identity.policy import read_policy

    rows = [(g.to, g.role.name.lower(), _shown(g.on)) for g in read_policy(file).grants]
    print_rows(ctx, ["who", "role", "on"], rows)


@grant_group.command("revoke")
@click.argument("who")
@click.argument("name", required=False)
@_EVERYTHING
@click.option("--role", type=_ROLE, help="Only this role.")
@_FILE
@DRY_RUN
@YES
@click.pass_context
def revoke(
    ctx: click.Context,
    who: str,
    name: str | None,
    everything: bool,
    role: str | None,
    file: Path,
    dry_run: bool,
    yes: bool,
) -> None:
    """Take what WHO was given on a namespace or a table, or on --everything, away."""
    from lakeroot.server.identity.access import Role
    from lakeroot.server.identity.access_file import remove_grant

    place = _place(name, everything=everything)
    only = Role[role.upper()] if role else None
    gone = remove_grant(file, who, only, place, dry_run=True)
    what = f"what {who} has on {_shown(place)}"
    if not dry_run:
        agreed(f"Revoke {what} ({_counted(gone, 'grant')})?", yes=yes)
        gone = remove_grant(file, who, only, place)
    done = "Would revoke" if dry_run else "Revoked"
    print_done(ctx, f"{done} {what}.", revoked=who, grants=gone, dry_run=dry_run)


def _counted(number: int, what: str) -> str:
    return f"the {what}" if number == 1 else f"{number} {what}s"


def _grant(who: str, role: str, place: Identifier) -> "Grant":
    from lakeroot.server.identity.policy import grant_of

    return grant_of({"to": who, "role": role, "on": list(place)})


def _place(name: str | None, *, everything: bool) -> Identifier:
    if everything == bool(name):
        raise InvalidInputError(
            "A grant is on one thing", fix="Name a namespace or a table, or say --everything"
        )
    return parse_dotted(name) if name else ()


def _shown(place: Identifier) -> str:
    return show(place) if place else "everything"


def _moment(text: str) -> datetime:
    span = re.fullmatch(r"(\d{1,5})([hdw])", text)
    now = datetime.now(UTC)
    try:
        if span:
            more: dict[str, Any] = {_UNITS[span[2]]: int(span[1])}
            moment = now + timedelta(**more)
        else:
            moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"{text!r} is not a moment", fix="Write 2027-01-31, 2027-01-31T12:00+00:00, or 90d"
        ) from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if moment <= now:
        raise InvalidInputError(f"A token that expires at {text} would never be good")
    return moment
