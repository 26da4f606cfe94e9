"""Connection properties: strings, as every Lance client passes them."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from lakeroot.model.errors import InvalidInputError
from lakeroot.namespace.jobs import PROPERTY as JOBS

STORAGE: Final = "storage."
_TRUE: Final = frozenset({"true", "1", "yes", "on"})
_FALSE: Final = frozenset({"false", "0", "no", "off"})


class Properties:
    """Takes properties one by one; what nobody took is an error."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._left = dict(given)
        # Those about jobs are known too: they were taken before, by whoever runs them.
        self._known = [JOBS, f"{JOBS}.*"]

    def text(self, key: str, default: str = "") -> str:
        """Take a string."""
        value = self._take(key)
        if value is None:
            return default
        if not isinstance(value, str):
            raise InvalidInputError(f"The property `{key}` must be a string, not {value!r}")
        return value

    def required(self, key: str, example: str) -> str:
        """Take a string that must be there."""
        value = self.text(key)
        if not value:
            raise InvalidInputError(f"The property `{key}` is missing", fix=f"Give {key}={example}")
        return value

    def switch(self, key: str, *, default: bool) -> bool:
        """Take true or false."""
        value = self._take(key)
        if value is None:
            return default
        plain = str(value).strip().lower()
        if plain in _TRUE:
            return True
        if plain in _FALSE:
            return False
        raise InvalidInputError(
            f"The property `{key}` must be true or false, not {value!r}", fix="Write true or false"
        )

    def number(self, key: str, default: int) -> int:
        """Take a whole number that is not negative."""
        value = self._take(key)
        if value is None:
            return default
        try:
            number = int(str(value))
        except ValueError:
            number = -1
        if number < 0:
            raise InvalidInputError(f"The property `{key}` must be a whole number, not {value!r}")
        return number

    def below(self, prefix: str) -> dict[str, str]:
        """Take every property whose name starts with a prefix, without the prefix."""
        self._known.append(prefix + "*")
        keys = [key for key in self._left if key.startswith(prefix)]
        return {key.removeprefix(prefix): str(self._left.pop(key)) for key in keys}

    def refuse(self, key: str, why: str) -> None:
        """Refuse a property that other implementations know and we do not keep."""
        if self._left.pop(key, None) is not None:
            raise InvalidInputError(f"The property `{key}` is not supported", why)

    def ignore(self, keys: Iterable[str]) -> None:
        """Take properties that change nothing here."""
        for key in keys:
            self._take(key)

    def finish(self) -> None:
        """Refuse whatever was not taken; a misspelled property must not be ignored."""
        for key in sorted(self._left):
            near = difflib.get_close_matches(key, self._known, n=1)
            raise InvalidInputError(
                f"There is no property `{key}`",
                fix=f"Did you mean `{near[0]}`?" if near else f"Known: {', '.join(self._known)}",
            )

    def _take(self, key: str) -> Any:
        self._known.append(key)
        return self._left.pop(key, None)
