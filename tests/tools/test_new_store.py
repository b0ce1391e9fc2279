"""A new store is one folder, one line in the table of URLs, one registration and one page.

The tests add a store to a copy of the tree by the steps of CONTRIBUTING. Its code is copied from
the memory store, which is a store like any other.
"""

from __future__ import annotations

import difflib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COPIED = (
    "src",
    "challenge",
    "tests",
    "tools",
    "docs",
    "bench",
    "examples",
    "pyproject.toml",
    "LICENSE",
    "*.md",
)

# Each test starts programs, which start other programs, on a machine that may be busy.
pytestmark = pytest.mark.timeout(180)

TABLES = {"ARCHITECTURE.md", "README.md", "docs/README.md", "docs/reference/capabilities.md"}
"""The pages that list all stores, each in a generated section."""


@dataclass(frozen=True)
class Grown:
    """A tree with an added store, and the files that were changed for it."""

    root: Path
    by_hand: dict[str, str]
    generated: set[str]


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Grown:
    """Return a copy of the tree with a store called stub."""
    root = tmp_path_factory.mktemp("a tree")
    copy_tree(root)
    before = files(root)
    add_folder(root)
    add_line(root / "src/lockfast/urls.py")
    add_registration(root)
    add_page(root)
    written = files(root)
    run(root, "tools/generate_sync.py")
    run(root, "tools/generate_docs.py")
    return Grown(root, changed(before, written), set(changed(written, files(root))))


# The steps of CONTRIBUTING.


def add_folder(root: Path) -> None:
    copy_renamed(root / "src/lockfast/backends", leaving_out="_sync")


def add_line(urls: Path) -> None:
    """Add the store to the table of URLs."""
    head = "STORES = (\n"
    line = '    "stub",\n'
    text = urls.read_text(encoding="utf-8")
    assert head in text
    urls.write_text(text.replace(head, head + line), encoding="utf-8")


def add_registration(root: Path) -> None:
    copy_renamed(root / "tests/backends", leaving_out="__pycache__")


def add_page(root: Path) -> None:
    page = "# `stub://`\n\n**What this does not promise.** Anything: it is a stub.\n"
    (root / "docs/backends/stub.md").write_text(page, encoding="utf-8")


def copy_renamed(rooms: Path, *, leaving_out: str) -> None:
    """Create the folder of the stub from that of the memory store."""
    ignored = shutil.ignore_patterns("__pycache__", leaving_out)
    shutil.copytree(rooms / "memory", rooms / "stub", ignore=ignored)
    for path in (rooms / "stub").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("memory", "stub").replace("Memory", "Stub"), encoding="utf-8")


# The copy, and comparing it.


def copy_tree(root: Path) -> None:
    """Copy everything with its compiled files, so that processes need not compile it again."""
    being_written = shutil.ignore_patterns("*.pyc.*")  # temporary files of other workers
    for source in (path for pattern in COPIED for path in ROOT.glob(pattern)):
        if source.is_dir():
            shutil.copytree(source, root / source.name, ignore=being_written)
        else:
            shutil.copy(source, root)


def files(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for path in root.rglob("*")
        if path.suffix in {".py", ".md", ".toml", ".txt"}
    }


def changed(before: dict[str, str], after: dict[str, str]) -> dict[str, str]:
    """Return the new and the different files, with the added and removed lines."""
    return {
        name: "".join(
            line
            for line in difflib.ndiff(before.get(name, "").splitlines(True), text.splitlines(True))
            if line[0] in "+-"
        )
        for name, text in after.items()
        if before.get(name) != text
    }


def run(root: Path, *command: str) -> str:
    """Run Python in the copy, with the copied package."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=root,
        env={**os.environ, "PYTHONPATH": f"{root / 'src'}:{root / 'challenge/src'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_is_one_folder_one_line_one_registration_and_one_page(grown: Grown) -> None:
    assert {room_of(name) for name in grown.by_hand} == {
        "src/lockfast/backends/stub/",
        "src/lockfast/urls.py",
        "tests/backends/stub/",
        "docs/backends/stub.md",
    }
    assert grown.by_hand["src/lockfast/urls.py"].count("\n") == 1
    assert grown.by_hand["src/lockfast/urls.py"].startswith("+ ")


def test_these_are_the_steps_of_contributing(grown: Grown) -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = guide.partition("## Adding a backend\n")[2].partition("\n## ")[0]
    steps = re.findall(r"^\d\. [^`]*`([^`]+)`", section, re.MULTILINE)

    assert {step.replace("NAME", "stub") for step in steps} == {
        room_of(name) for name in grown.by_hand
    }


def room_of(name: str) -> str:
    """Return the store's folder that contains a file, or else the file."""
    return re.sub(r"(?<=/stub/).*", "", name)


def test_all_the_rest_is_generated(grown: Grown) -> None:
    sync = {name for name in grown.generated if "/stub/_sync/" in name}

    assert sync
    assert grown.generated - sync == TABLES


def test_its_url_opens_it_in_both_flavours(grown: Grown) -> None:
    program = """if True:
        import asyncio
        import lockfast

        with lockfast.Locks("stub://shop") as ours, lockfast.Locks("stub://shop") as theirs:
            with ours.lock("door") as lease:
                assert theirs.lock("door").try_acquire() is None
            print(lease.token)

        async def main():
            async with lockfast.AsyncLocks("stub://shop") as ours:
                async with ours.lock("door") as lease:
                    print(lease.token)

        asyncio.run(main())
    """

    first, second = run(grown.root, "-c", program).split()

    assert int(second) > int(first)


def test_the_laws_hold_on_it(grown: Grown) -> None:
    laws = "law_01 or law_03_tokens or law_04 or law_05"

    told = run(grown.root, *pytest_of("tests/backends/stub"), "-k", laws)

    assert "skipped" not in told
    assert int(re.findall(r"(\d+) passed", told)[0]) >= 20


@pytest.mark.soak  # all linters and type checkers once more, on a copy
def test_the_house_has_no_objection(grown: Grown) -> None:
    by_hand = [name for name in grown.by_hand if name.endswith(".py")]

    run(grown.root, "tools/generate_sync.py", "--check")
    run(grown.root, "tools/generate_docs.py", "--check")
    run(grown.root, "-m", "ruff", "check", "--no-cache", *by_hand)
    index = "tests/docs/test_links.py::test_every_page_is_in_the_index"
    rules = pytest_of("tests/architecture", "tests/docs/test_generated.py", index)
    run(grown.root, *rules, "-k", "not checker")


def pytest_of(*names: str) -> tuple[str, ...]:
    return ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *names)
