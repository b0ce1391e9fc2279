"""What a package index shows: the README, with links and pictures that work outside the repository.

In the repository they are relative. On an index they would lead nowhere, so the build makes them
absolute, below `address` in pyproject.toml.
"""

from __future__ import annotations

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
ELSEWHERE = ("https://", "http://", "mailto:", "#")


class CustomMetadataHook(MetadataHookInterface):
    """Found by hatchling under this name."""

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
    """Return the page with every relative link made absolute, as a code host serves files."""

    def replaced(found: re.Match[str]) -> str:
        target = found["target"]
        if target.startswith(ELSEWHERE):
            return found[0]
        # Images link to the raw file, pages to the host's view of it.
        kind = "raw" if found["image"] else "blob"
        return f"{found['image']}[{found['text']}]({address}/{kind}/main/{target})"

    return LINK.sub(replaced, page)
