"""Profiles: catalogs that a person has given names, in a file.

This and the command line's own options are all that is read from the environment.
"""

import os
from pathlib import Path
from typing import Any

from lakeroot.model.errors import InvalidInputError


def config_path() -> Path:
    """Give the place of the configuration file."""
    given = os.environ.get("LAKEROOT_CONFIG")
    if given:
        return Path(given)
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "lakeroot" / "config.toml"


def profiles() -> dict[str, dict[str, str]]:
    """Read the profiles: a table of properties for each name."""
    path = config_path()
    if not path.exists():
        return {}
    import tomllib

    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{path} is not UTF-8", str(error)) from error
    except tomllib.TOMLDecodeError as error:
        raise InvalidInputError(f"{path} is not valid TOML", str(error)) from error
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read", error.strerror or str(error)) from error
    found = content.get("profiles", {})
    if not isinstance(found, dict) or not all(isinstance(one, dict) for one in found.values()):
        raise InvalidInputError(
            f"{path} has no profiles", fix='Write [profiles.dev] and below it root = "./lake"'
        )
    return {name: _strings(one) for name, one in found.items()}


def profile(name: str) -> dict[str, str]:
    """Give the properties of one profile, its `root` among them."""
    found = profiles()
    if name not in found:
        known = ", ".join(sorted(found)) or "none"
        raise InvalidInputError(f"There is no profile {name!r}", f"there is {known}")
    return found[name]


def _strings(given: dict[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in given.items():
        if isinstance(value, dict):
            flat |= _strings(value, f"{prefix}{key}.")
        elif isinstance(value, bool):
            flat[prefix + key] = str(value).lower()
        else:
            flat[prefix + key] = str(value)
    return flat
