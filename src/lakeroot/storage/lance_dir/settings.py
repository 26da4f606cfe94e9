"""How a directory catalog behaves."""

from msgspec import Struct

from lakeroot.model.errors import InvalidInputError


class DirectorySettings(Struct, frozen=True):
    """The switches of a directory catalog; both schemes together are the compatibility mode."""

    manifest_enabled: bool = True
    dir_listing_enabled: bool = True
    inline_optimization_enabled: bool = False
    table_version_management: bool = False
    commit_retries: int = 100
    durable: bool = False
    author: str = ""

    def __post_init__(self) -> None:
        if not self.manifest_enabled and not self.dir_listing_enabled:
            raise InvalidInputError(
                "A directory catalog needs `manifest_enabled` or `dir_listing_enabled`",
                "with neither there is nothing to find tables by",
            )
        if self.table_version_management and not self.manifest_enabled:
            raise InvalidInputError(
                "`table_version_management` needs `manifest_enabled`",
                "versions are kept as rows of the manifest",
            )
        if self.commit_retries < 0:
            raise InvalidInputError("`commit_retries` cannot be negative")
