"""Mistakes that are none: the program behaves the same with them, so no test can notice."""

SAME: dict[tuple[str, str, str], str] = {}
"""By module, function and mistake: why nobody can tell the difference."""
