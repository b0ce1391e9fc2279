"""The map is true: each room that it names exists, and each existing room has a row.

ARCHITECTURE.md has the rooms of the library, CONTRIBUTING.md those of the tests.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

HEADING = re.compile(r"^## The rooms of `(?P<base>[\w/]+)/`.*$", re.MULTILINE)
TABLES = ("src/lockfast", "src/lockfast/backends", "tests")

QUOTED = re.compile(r"`([^`\s]+)`")

# Not rooms: these belong to the folder that they are in.
PARTS = {"__init__.py", "conftest.py"}


def faults(page: str, root: Path) -> list[str]:
    """Return every claim of the page that is not true of a tree."""
    return [*wrong_tables(page, root), *missing_files(page, root)]


def wrong_tables(page: str, root: Path) -> Iterator[str]:
    """Yield the rooms without a row, and the rows without a room."""
    headings = {found["base"]: found.end() for found in HEADING.finditer(page)}
    for base in TABLES:
        if base not in headings:
            yield f"there is no table of the rooms of {base}/"
            continue
        named = {name.rstrip("/") for name in first_cells(page[headings[base] :])}
        there = set(rooms(root / base))
        yield from (f"{base}/{name} has no row" for name in sorted(there - named))
        for name in sorted(named - there):
            if not (root / base / name).exists():
                yield f"{base}/{name} has a row and does not exist"


def first_cells(text: str) -> Iterator[str]:
    """Yield the quoted names in the first column of the first table of a text."""
    table = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)
    for line in table[0].splitlines() if table else ():
        yield from QUOTED.findall(line.split("|")[1])


def rooms(folder: Path) -> Iterator[str]:
    """Yield the modules and the folders of a folder."""
    for path in folder.iterdir():
        if path.name not in PARTS and (path.suffix == ".py" or has_files(path)):
            yield path.name


def has_files(path: Path) -> bool:
    """Return whether a folder has files of ours, and not only files that Python left behind."""
    return path.is_dir() and any(
        one.is_file() and "__pycache__" not in one.relative_to(path.parent).parts
        for one in path.rglob("*")
    )


def missing_files(page: str, root: Path) -> Iterator[str]:
    """Yield every path that the page names but that does not exist."""
    for name in sorted(set(QUOTED.findall(page))):
        is_path = "/" in name and "://" not in name
        # A path with <store> stands for one file in each store.
        pattern = name.rstrip("/").replace("<store>", "*")
        bases = [root / base for base in ("", "challenge/src", *TABLES)]
        if is_path and not any(any(base.glob(pattern)) for base in bases):
            yield f"{name} is named and does not exist"


def misplaced(page: str, *packages: Path) -> list[str]:
    """Return the rows of "Where to change what" that do not name the one file defining the symbol.

    Paths are relative to the first package, and for every other package to its parent folder.
    """
    _, _, table = page.partition("## Where to change what\n")
    rows = re.findall(r"^\|.*\| `([^`]+)` \| `(\w+)` \|$", table, re.MULTILINE)
    bases = [packages[0], *(one.parent for one in packages[1:])]
    defined = {
        path.relative_to(base).as_posix(): symbols(path.read_text(encoding="utf-8"))
        for base, package in zip(bases, packages, strict=True)
        for path in sorted(package.rglob("*.py"))
        if "_sync" not in path.parts
    }
    return [
        f"{symbol} is not in {name} alone, but in {', '.join(places) or 'no file'}"
        for name, symbol in rows
        if (places := [one for one, found in defined.items() if symbol in found]) != [name]
    ] or ([] if rows else ["there is no table of changes"])


def symbols(text: str) -> set[str]:
    """Return the names that a module defines at its top level."""
    found: set[str] = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        found |= {one.id for one in targets if isinstance(one, ast.Name)}
    return found


def test_the_map_is_true() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    [tests] = re.findall(r"^## The rooms of `tests/`\n[^#]*", guide, re.MULTILINE)

    assert faults(page + tests, ROOT) == []


def test_each_change_leads_to_a_symbol_of_one_file() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")

    packages = ROOT / "src" / "lockfast", ROOT / "challenge" / "src" / "lockfast_challenge"
    assert misplaced(page, *packages) == []


def test_the_page_stays_short() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")

    assert page.count("\n") <= 130


# Tests of the checker itself.

PAGE = """\
## The rooms of `src/lockfast/`, top to bottom

| room | what is in it |
|---|---|
| `model.py`, `core/` | what `core/` decides |
| `backends/` | the stores |
| `__init__.py` | the public names |

## The rooms of `src/lockfast/backends/`

| room | its store |
|---|---|
| `redis/` | Redis |

## Where to make which change

| you want to | go to |
|---|---|
| change a script | `backends/redis/` |
| change what every store has | `backends/<store>/requests.py`, and `make generate` |

## The rooms of `tests/`

| room | what it proves |
|---|---|
| `core/` | the decisions of `core/door.py` about `redis://host` |
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Create a tree of which the page above is true."""
    for name in (
        "src/lockfast/__init__.py",
        "src/lockfast/model.py",
        "src/lockfast/core/door.py",
        "src/lockfast/backends/__init__.py",
        "src/lockfast/backends/redis/requests.py",
        "src/lockfast/backends/gone/__pycache__/backend.pyc",
        "src/lockfast/__pycache__/old.pyc",
        "src/lockfast/py.typed",
        "tests/conftest.py",
        "tests/core/test_door.py",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert faults(PAGE, tmp_path) == []
    return tmp_path


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("src/lockfast/errors.py", "src/lockfast/errors.py has no row"),
        ("src/lockfast/runtime/aio.py", "src/lockfast/runtime has no row"),
        ("src/lockfast/backends/etcd/lines.py", "src/lockfast/backends/etcd has no row"),
        ("tests/shell/test_lock.py", "tests/shell has no row"),
    ],
)
def test_the_checker_catches_a_room_without_a_row(name: str, complaint: str, tree: Path) -> None:
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()

    assert faults(PAGE, tree) == [complaint]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("| `__init__.py` |", "| `wire.py` |", "src/lockfast/wire.py has a row and does not exist"),
        ("`core/door.py`", "`core/gate.py`", "core/gate.py is named and does not exist"),
        (
            "<store>/requests",
            "<store>/queries",
            "backends/<store>/queries.py is named and does not exist",
        ),
        ("rooms of `tests/`", "rooms of the tests", "there is no table of the rooms of tests/"),
    ],
)
def test_the_checker_catches_a_page_that_is_not_true(
    old: str, new: str, complaint: str, tree: Path
) -> None:
    assert faults(PAGE.replace(old, new), tree) == [complaint]


@pytest.mark.parametrize(
    ("other", "complaints"),
    [
        ("", []),
        ("RULE = 2", ["RULE is not in core/door.py alone, but in core/door.py, other.py"]),
    ],
)
def test_the_checker_wants_a_symbol_in_one_file_alone(
    other: str, complaints: list[str], tmp_path: Path
) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "core/door.py").write_text("RULE: int = 1")
    (tmp_path / "other.py").write_text(other)
    page = "## Where to change what\n| change | file | symbol |\n| x | `core/door.py` | `RULE` |\n"

    assert sorted(misplaced(page, tmp_path)) == complaints


def test_the_checker_misses_a_symbol_that_was_renamed(tmp_path: Path) -> None:
    (tmp_path / "door.py").write_text("RULES = 1")
    page = "## Where to change what\n| x | `door.py` | `RULE` |\n"

    assert misplaced(page, tmp_path) == ["RULE is not in door.py alone, but in no file"]
