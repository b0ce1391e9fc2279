"""Makes the README that a package index shows, with links that work outside the repository.

In the repository, links to pages and pictures are relative. On an index, relative links would lead
nowhere, so the build makes them absolute, below `address` in pyproject.toml.
"""

from __future__ import annotations

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
ELSEWHERE = ("https://", "http://", "mailto:", "#")


class CustomMetadataHook(MetadataHookInterface):
    """The metadata hook, which hatchling finds by this class name."""

    def update(self, metadata: dict[str, object]) -> None:
        """Fill in the fields that pyproject.toml declares as dynamic."""
        address = str(self.config["address"])
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(readme, address)}
        metadata["urls"] = urls(address)


def urls(address: str) -> dict[str, str]:
    """Return the links that an index shows beside the package."""
    return {
        "Source": address,
        "Documentation": f"{address}/blob/main/docs/README.md",
        "Changelog": f"{address}/blob/main/CHANGELOG.md",
        "Issues": f"{address}/issues",
        "Security": f"{address}/blob/main/SECURITY.md",
    }


def absolute(page: str, address: str) -> str:
    """Return the page with every relative link made absolute."""

    def replaced(found: re.Match[str]) -> str:
        target = found["target"]
        if target.startswith(ELSEWHERE):
            return found[0]
        # An image links to the raw file; any other link leads to the code host's view of the file.
        kind = "raw" if found["image"] else "blob"
        return f"{found['image']}[{found['text']}]({address}/{kind}/main/{target})"

    return LINK.sub(replaced, page)
