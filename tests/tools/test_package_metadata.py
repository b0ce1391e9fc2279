"""Links in published metadata lead back to the repository."""

from __future__ import annotations

import pytest
from doc_pages import ROOT

from package_metadata import absolute

ADDRESS = "https://example.org/lockfast"


def test_a_page_is_shown_by_the_code_host():
    page = absolute("see [the API](docs/reference/api.md#lock)", ADDRESS)

    assert page == f"see [the API]({ADDRESS}/blob/main/docs/reference/api.md#lock)"


def test_a_picture_is_the_picture_itself():
    page = absolute("![the demo](docs/images/demo.svg)", ADDRESS)

    assert page == f"![the demo]({ADDRESS}/raw/main/docs/images/demo.svg)"


@pytest.mark.parametrize("target", ["https://redis.io/docs", "mailto:a@example.org", "#install"])
def test_what_leads_out_already_is_left_alone(target):
    assert absolute(f"[there]({target})", ADDRESS) == f"[there]({target})"


def test_no_link_of_the_readme_is_left_relative():
    page = absolute((ROOT / "README.md").read_text(encoding="utf-8"), ADDRESS)

    assert "](docs/" not in page
    assert "](LICENSE" not in page
