"""The tree stays small: few modules, most with several users, one meaning per class name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = (ROOT / "src" / "lockfast", ROOT / "challenge" / "src" / "lockfast_challenge")

MODULES_MAX = 350
ONE_IMPORTER_MAX = 90

# A module of under 100 lines with a single importer belongs in that importer, except for these.
SMALL_WITH_ONE_IMPORTER = {
    "lockfast.backends.redis._async.survey": "its importer would pass 450 lines",
    "lockfast.backends.redlock.diagnostics": "every store has this file",
    "lockfast.backends.redlock.quarantine": "pure, and tested by properties",
    "lockfast.backends.sqlite.diagnostics": "every store has this file",
    "lockfast.backends.sqlite.listener_aio": "half of a pair",
    "lockfast.backends.zookeeper.descriptor": "importable without the driver",
    "lockfast.client._async.adoption": "its importer would pass 450 lines",
    "lockfast.sql_rows.commit": "the facts of both flavours",
    "lockfast.sql_rows.sigterm": "needs no database; serves both flavours",
    "lockfast_challenge.servers.made_once": "test runs share it between their workers",
    "lockfast_challenge.servers.redlock": "every store has this file",
}

# Every store has its own class of each of these names, with the same meaning.
ONE_PER_STORE = {"Address", "ServerFacts"}


def modules() -> Iterator[tuple[str, Path]]:
    """Yield every module that is written by hand, by its full name."""
    for package in PACKAGES:
        for path in sorted(package.rglob("*.py")):
            parts = path.relative_to(package.parent).with_suffix("").parts
            if "_sync" not in parts and parts[-1] != "__init__":
                yield ".".join(parts), path


def importers() -> Mapping[str, set[str]]:
    """Return which modules import each module; a generated module counts as its source."""
    known = {name for name, _ in modules()}
    found = defaultdict[str, set[str]](set)
    for package in PACKAGES:
        for path in package.rglob("*.py"):
            if "_sync" in path.parts:
                continue
            user = ".".join(path.relative_to(package.parent).with_suffix("").parts)
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module:
                    base = node.module.replace("._sync", "._async")
                    names = {base, *(f"{base}.{one.name}" for one in node.names)}
                    for name in names & known - {user}:
                        found[name].add(user)
    return found


def test_there_are_not_too_many_modules() -> None:
    assert len(list(modules())) <= MODULES_MAX


def test_few_modules_have_one_importer_and_small_ones_a_reason() -> None:
    lines = {name: path.read_text("utf-8").count("\n") for name, path in modules()}
    single = [name for name, users in importers().items() if len(users) == 1]

    assert len(single) <= ONE_IMPORTER_MAX
    assert {name for name in single if lines[name] < 100} <= set(SMALL_WITH_ONE_IMPORTER)
    assert set(SMALL_WITH_ONE_IMPORTER) <= set(single)  # every reason has its module


def test_a_class_name_has_one_meaning() -> None:
    """The halves of a pair and the platforms have the same names on purpose."""
    places = defaultdict[str, set[str]](set)
    for name, path in modules():
        pair = name.removesuffix("aio").removesuffix("threads")
        place = "platforms" if ".platforms." in name else pair
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].add(place)
                if "_async" in path.parts:  # also the class in the generated sync tree
                    places[node.name.replace("Async", "", 1)].add(place)

    assert {name for name, found in places.items() if len(found) > 1} == ONE_PER_STORE
