"""The documentation site is built from all pages, is complete, and works in a browser."""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest
from browser.built_pages import BuiltPage, read
from browser.webdriver import Browser
from doc_pages import PAGES, ROOT

import build_site
import lockfast
from lockfast_challenge.processes import eventually

# Building the site takes a dozen seconds before the first test, and the tests open a hundred pages
# in turn: minutes on a busy machine.
pytestmark = [pytest.mark.timeout(600), pytest.mark.soak]

OUTSIDE = ("http://", "https://", "//", "data:", "mailto:")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which the site was built, as by `make docs`."""
    folder = tmp_path_factory.mktemp("site") / "html"
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "build_site.py", folder],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, BuiltPage]:
    return {path: read(path) for path in sorted(site.rglob("*.html"))}


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a log."""

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Return the address at which the site is served."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


def test_every_page_is_on_the_site(site: Path) -> None:
    expected = {site / build_site.place(page.as_posix()) for page in PAGES}

    assert {one for one in expected if not one.with_suffix(".html").exists()} == set()


def test_every_link_leads_somewhere(site: Path, pages: dict[Path, BuiltPage]) -> None:
    broken = [
        f"{path.relative_to(site)}: {target}"
        for path, page in pages.items()
        for target in page.links
        if not target.startswith(OUTSIDE) and not leads_somewhere(path, target, pages)
    ]

    assert broken == []


def leads_somewhere(path: Path, target: str, pages: dict[Path, BuiltPage]) -> bool:
    name, _, anchor = unquote(target).partition("#")
    there = (path.parent / name.partition("?")[0]).resolve() if name else path
    if anchor and there in pages:
        return anchor in pages[there].anchors
    return there.exists()


def test_nothing_is_loaded_from_another_host(site: Path, pages: dict[Path, BuiltPage]) -> None:
    loaded = {target for page in pages.values() for target in page.loads}
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))

    assert {one for one in loaded if one.startswith(("http:", "https:", "//"))} == set()
    assert "url(http" not in styles
    assert "@import" not in styles


def test_every_public_name_is_in_the_reference_made_of_docstrings(
    pages: dict[Path, BuiltPage],
) -> None:
    anchors = set().union(*(page.anchors for path, page in pages.items() if "api" in path.parts))
    described = {one.rpartition(".")[2] for one in anchors if one.count(".") in {1, 2}}

    assert set(lockfast.__all__) - described == set()


def test_every_page_opens_on_a_phone_without_a_complaint(
    site: Path, pages: dict[Path, BuiltPage], browser: Browser, address: str
) -> None:
    complaints, too_wide = [], []
    for path in pages:
        page = path.relative_to(site).as_posix()
        browser.open(f"{address}/{page}")
        complaints += [f"{page}: {one}" for one in browser.complaints()]
        if browser.run("return document.documentElement.scrollWidth > innerWidth"):
            too_wide.append(page)

    assert complaints == []
    assert too_wide == []


def test_a_reader_finds_a_page_by_searching(browser: Browser, address: str) -> None:
    browser.open(f"{address}/search.html?q=fencing")

    found = "return document.querySelectorAll('ul.search li a').length"
    eventually(lambda: browser.run(found), what="there are results")

    assert browser.complaints() == []


def test_a_link_that_leads_nowhere_is_no_site(tmp_path: Path) -> None:
    """Sphinx runs in strict mode, and checks links before it writes a page."""
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "index.md").write_text("# One page\n\n[gone](gone.md)\n")

    with pytest.raises(SystemExit):
        build_site.build(tmp_path / "pages", tmp_path / "site")
