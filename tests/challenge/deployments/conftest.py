"""The documentation pages of the stores, as a reader sees them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[3] / "docs" / "backends"


@pytest.fixture
def page_of() -> Callable[[str], str]:
    """Return the text of a store's page, without its markup."""

    def read(store: str) -> str:
        page = {"sentinel": "redis", "cluster": "redis", "mariadb": "mysql"}.get(store, store)
        text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
        return " ".join(text.replace("*", "").replace("`", "").split())

    return read
