"""The generated parts of the documentation match what the code declares."""

from __future__ import annotations

import pytest
from doc_pages import ROOT

import generate_docs
from lockfast import errors


@pytest.mark.parametrize("page", generate_docs.PAGES)
def test_the_page_is_up_to_date(page):
    text = (ROOT / page).read_text(encoding="utf-8")

    assert "<!-- generated: " in text
    assert generate_docs.generated(text) == text


def test_a_table_that_was_changed_by_hand_is_put_right():
    text = "before\n<!-- generated: backends -->\n| all | yes |\n<!-- end -->\nafter\n"

    mended = generate_docs.generated(text)

    assert "| all | yes |" not in mended
    assert "(docs/backends/sqlite.md)" in mended
    assert mended.startswith("before\n")
    assert mended.endswith("<!-- end -->\nafter\n")


def test_every_backend_in_the_tables_has_a_page_and_every_page_a_backend():
    pages = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs/backends").glob("*.md")}

    assert {one.page for one in generate_docs.backends()} == pages


def test_every_error_is_in_the_table():
    assert sorted(generate_docs.errors_in_order()) == sorted(errors.__all__)
