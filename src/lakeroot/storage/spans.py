"""How long things are let be."""

from datetime import timedelta
from typing import Final

GRACE: Final = timedelta(days=1)
"""How old something must be before it is taken for a dead writer's."""

RETENTION: Final = timedelta(days=7)
"""How far back the past of a catalog can be read, unless somebody says otherwise."""
