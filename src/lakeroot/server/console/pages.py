"""What a page is before anybody has chosen HTML or JSON."""

from dataclasses import dataclass, field
from typing import Any

from lakeroot.model.identifiers import Identifier


@dataclass(frozen=True, slots=True)
class Page:
    """A title and data: the JSON twin is the data, and the template draws nothing else."""

    template: str
    title: str
    data: dict[str, Any] = field(default_factory=dict)
    where: Identifier = ()
    tab: str = ""
    has_form: bool = False
