"""Build the documentation site: `make docs`.

    tools/build_site.py [FOLDER]    into that folder, by default build/site

The pages are Markdown that reads well on a code host, and are not changed. They are copied to a
temporary folder, where the README is the first page; links between pages are adapted, and links to
source files go to the project's address. The sidebar lists the pages of docs/README.md, in the same
order. Sphinx builds the site; any Sphinx warning, such as a broken link, is an error.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from os.path import relpath
from pathlib import Path, PurePosixPath

import lockfast
from lockfast import errors

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = ROOT / "tools" / "site"
INDEX = "docs/README.md"

BESIDES = {
    "README.md": "index.md",
    INDEX: "pages.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
"""Pages with another path on the site; every other page keeps its path below docs."""

GROUPS = (
    ("Fence what you write to", r"how-to/fence-"),
    ("With a framework", r"how-to/(apscheduler|celery|django|fastapi|kubernetes|sqlalchemy)\."),
    ("Coming from", r"how-to/from-(?!writing-to-reading)"),
    ("Help", r"troubleshooting|faq"),
    ("How to", r"how-to/"),
    ("Concepts", r"concepts/"),
    ("Backends", r"backends/"),
    ("Reference", r"reference/"),
    ("Measured", r"benchmarks/"),
    ("Decisions", r"decisions/|glossary"),
)
SHOWN = (
    *("How to", "Concepts", "Backends", "Fence what you write to", "With a framework"),
    *("Coming from", "Help", "Reference", "Measured", "Decisions"),
)

# Sphinx makes millions of small objects and drops few, so garbage collection, which would take a
# fifth of the time, is disabled.
SPHINX = (
    "import gc, sys; gc.disable(); from sphinx.cmd.build import main; sys.exit(main(sys.argv[1:]))"
)

LINK = re.compile(r"(?P<head>!?\[[^\]]*\]\()(?P<target>[^)\s]+)\)")
FENCE = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
ELSEWHERE = ("https://", "http://", "mailto:", "#")

LOCKS = ("Lock", "RWLock", "Semaphore", "AllOf", "Sharded", "Lease", "ShardLease")
ASYNC = tuple(f"Async{name}" for name in ("Locks", *LOCKS))
BACKENDS = ("Backend", "AsyncBackend")
VALUES = tuple(
    name
    for name in lockfast.__all__
    if name not in {"Locks", *LOCKS, *ASYNC, *BACKENDS, *errors.__all__}
)
API: dict[str, tuple[str, str, tuple[str, ...] | None]] = {
    "client": ("the client", "lockfast", ("Locks",)),
    "locks": ("locks and leases", "lockfast", LOCKS),
    "asyncio": ("asyncio", "lockfast", ASYNC),
    "values": ("values and events", "lockfast", VALUES),
    "errors": ("errors", "lockfast.errors", None),
    "backends": ("writing a backend", "lockfast", BACKENDS),
    "fencing": ("fencing", "lockfast.fencing", None),
    "sql-rows": ("rows of your own", "lockfast.sql_rows", None),
    "testing": (
        "testing",
        "lockfast.testing",
        ("FaultyBackend", "ManualClock", "VirtualClock", "VirtualTimeLoop", "run_in_virtual_time"),
    ),
}
"""The pages that Sphinx fills with docstrings: title, module, and names (None for all names)."""


def main() -> None:
    """Run from the command line."""
    target = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "site")
    with tempfile.TemporaryDirectory(prefix="lockfast-site-") as folder:
        gather(Path(folder))
        build(Path(folder), target)
    print(f"built {target}; open {target / 'index.html'}")


def build(pages: Path, target: Path) -> None:
    """Build the site with Sphinx; if it fails, exit with its exit code."""
    shutil.rmtree(target, ignore_errors=True)
    options = "-b", "html", "-q", "-W", "--keep-going", "-d", pages / ".doctrees", "-c", SETTINGS
    done = subprocess.run([sys.executable, "-c", SPHINX, *options, pages, target], check=False)
    if done.returncode:
        sys.exit(done.returncode)


# -- the pages -----------------------------------------------------------------------------


def gather(folder: Path) -> None:
    """Write all pages and their images into the folder."""
    address = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"][
        "metadata"
    ]["hooks"]["custom"]["address"]
    sources = [*BESIDES, *(path.relative_to(ROOT).as_posix() for path in written())]
    for source in dict.fromkeys(sources):
        path = folder / place(source)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = moved((ROOT / source).read_text(encoding="utf-8"), source, address)
        if source == "README.md":
            text += "\n".join(sidebar())
        path.write_text(text, encoding="utf-8")
    for picture in (ROOT / "docs").rglob("*.svg"):
        path = folder / picture.relative_to(ROOT / "docs")
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(picture, path)
    write_api(folder / "api")


def written() -> Iterator[Path]:
    """Yield the pages below docs."""
    yield from sorted((ROOT / "docs").rglob("*.md"))


def place(source: str) -> str:
    """Return the path of a repository page on the site."""
    return BESIDES.get(source) or source.removeprefix("docs/")


def moved(text: str, source: str, address: str) -> str:
    """Return the page with its links adapted to its path on the site."""

    def replaced(found: re.Match[str]) -> str:
        target = found["target"]
        if target.startswith(ELSEWHERE):
            return found[0]
        name, mark, anchor = target.partition("#")
        path = relpath(PurePosixPath(source).parent / name, ".")
        if path in BESIDES or path.startswith("docs/"):
            there = relpath(place(path), PurePosixPath(place(source)).parent)
            return f"{found['head']}{there}{mark}{anchor})"
        return f"{found['head']}{address}/blob/main/{path}{mark}{anchor})"

    parts = FENCE.split(text)
    fences = FENCE.findall(text)
    changed = [LINK.sub(replaced, part) for part in parts]
    return changed[0] + "".join(
        fence + part for fence, part in zip(fences, changed[1:], strict=True)
    )


def sidebar() -> Iterator[str]:
    """Yield the toctrees of the pages: in the order of docs/README.md, in groups."""
    listed = LINK.findall((ROOT / INDEX).read_text(encoding="utf-8"))
    pages = [
        target.partition("#")[0] for _, target in listed if not target.startswith(("http", ".."))
    ]
    groups: dict[str, list[str]] = {caption: [] for caption in SHOWN}
    for page in dict.fromkeys(pages):
        caption = next(caption for caption, pattern in GROUPS if re.match(pattern, page))
        groups[caption].append(page)
    groups["Reference"] += [f"api/{name}" for name in API]
    groups["Decisions"] = ["architecture.md", *groups["Decisions"]]
    yield from toctree("", ["pages.md"])
    for caption, found in groups.items():
        yield from toctree(caption, found)
    yield from toctree("The project", ["contributing.md", "security.md", "changelog.md"])


def toctree(caption: str, pages: list[str]) -> Iterator[str]:
    """Yield one list of pages."""
    yield from ("", "```{toctree}", ":hidden:", ":titlesonly:", ":maxdepth: 1")
    if caption:
        yield f":caption: {caption}"
    yield from ("", *pages, "```")


# -- the reference -------------------------------------------------------------------------


def write_api(folder: Path) -> None:
    """Write the pages that Sphinx fills with docstrings."""
    folder.mkdir()
    for name, (title, module, names) in API.items():
        (folder / f"{name}.rst").write_text("\n".join(api_page(title, module, names)) + "\n")


def api_page(title: str, module: str, names: tuple[str, ...] | None) -> Iterator[str]:
    """Yield a page of the reference."""
    heading = f"API: {title}"
    yield from (heading, "=" * len(heading), "")
    if names is None:
        yield from (f".. automodule:: {module}", "   :members:", "   :show-inheritance:", "")
        return
    for name in names:
        kind = "autoclass" if name[0].isupper() else "autofunction"
        yield f".. {kind}:: {module}.{name}"
        if kind == "autoclass":
            yield from ("   :members:", "   :inherited-members:")
        yield ""


if __name__ == "__main__":
    main()
