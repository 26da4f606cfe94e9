"""Cookies: how a browser carries a token, to the one face that takes it there."""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote

SESSION: Final = "lakeroot_console"
"""Holds the token of somebody who logged in."""
SEED: Final = "lakeroot_forms"
"""Holds a random value to which the forms of one browser are bound."""
PATH: Final = "/console"


def cookie(headers: Mapping[str, str], name: str) -> str:
    """The value of a cookie, empty if it was not sent."""
    for pair in headers.get("cookie", "").split(";"):
        key, _, value = pair.strip().partition("=")
        if key == name:
            return unquote(value)
    return ""


def credentials(headers: Mapping[str, str], name: str | None) -> Mapping[str, str]:
    """The headers that say who is asking; a face that takes a cookie takes it as a bearer."""
    if name is None or "authorization" in headers or "x-api-key" in headers:
        return headers
    token = cookie(headers, name)
    return {"authorization": f"Bearer {token}"} if token else headers


def set_cookie(name: str, value: str, *, secure: bool, seconds: int | None = None) -> str:
    """Write a cookie that scripts cannot read and other sites cannot send."""
    parts = [f"{name}={quote(value, safe='')}", f"Path={PATH}", "HttpOnly", "SameSite=Strict"]
    if secure:
        parts.append("Secure")
    if seconds is not None:
        parts.append(f"Max-Age={seconds}")
    return "; ".join(parts)


def new_seed() -> str:
    """Make the random value of a browser that has none."""
    return secrets.token_urlsafe(24)


def form_token(seed: str, session: str) -> str:
    """The token of a form: only this server's pages, read with both cookies, can contain it."""
    return hmac.new(seed.encode(), session.encode(), hashlib.sha256).hexdigest()


def is_form_token(given: str, headers: Mapping[str, str]) -> bool:
    """Tell whether a form came from a page that was made for this browser."""
    seed = cookie(headers, SEED)
    expected = form_token(seed, cookie(headers, SESSION))
    return bool(seed) and hmac.compare_digest(given.encode(), expected.encode())
