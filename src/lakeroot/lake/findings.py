"""What is wrong with a catalog, in the hand."""

from lakeroot.lake.display import html_table
from lakeroot.storage.findings import Finding, Severity


class Findings(list[Finding]):
    """What is wrong with a catalog, the worst first; empty if everything is in order."""

    @property
    def errors(self) -> list[Finding]:
        """Those because of which something cannot be read."""
        return [one for one in self if one.severity is Severity.ERROR]

    def _repr_html_(self) -> str:
        if not self:
            return "<p>Everything is in order.</p>"
        rows = [(one.severity, one.code, one.object, one.what, one.why, one.fix) for one in self]
        return html_table(["severity", "code", "object", "what", "why", "fix"], rows)
