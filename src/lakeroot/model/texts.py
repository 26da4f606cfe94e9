"""Texts that users give to be kept: messages, and the keys and values of properties."""

from lakeroot.model.errors import InvalidInputError


def require_text(value: object, what: str) -> str:
    """Refuse what cannot be kept as a text; Python does not."""
    if not isinstance(value, str):
        raise InvalidInputError(f"{what} is a string, not {value!r}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidInputError(
            f"{what} is not valid Unicode", f"{value[:40]!r} holds half of a surrogate pair"
        ) from None
    return value
