"""Two distributions, one version: the library, and the challenge that is built on it."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import lockfast

ROOT = Path(__file__).parents[2]
CHALLENGE = ROOT / "challenge" / "src" / "lockfast_challenge"

# The internal modules that the challenge uses. This list only shrinks.
INTERNALS = {
    "lockfast.backends.redis.address",  # for faults of servers that the user named
    "lockfast.cli.json_output",
    "lockfast.cli.output",
    "lockfast.cli.store",
    "lockfast.cli.text",
    "lockfast.core.descriptor",
    "lockfast.errors",
    "lockfast.model",
    "lockfast.observe.figures",
    "lockfast.platforms",
    "lockfast.runtime.clock",
    "lockfast.urls",
}


def project(path: Path) -> dict[str, object]:
    return tomllib.loads((path / "pyproject.toml").read_text("utf-8"))["project"]


def imported_by(package: Path) -> Iterator[str]:
    """Yield every module of the library that a package imports."""
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                yield node.module
            elif isinstance(node, ast.Import):
                yield from (one.name for one in node.names)


def test_both_have_one_version_and_need_exactly_each_other():
    library, challenge = project(ROOT), project(ROOT / "challenge")
    version = lockfast.__version__

    assert library["version"] == challenge["version"] == version
    assert challenge["dependencies"] == [f"lockfast[cli]=={version}", "redis>=5.0,<9"]
    extras = library["optional-dependencies"]
    assert extras["challenge"] == [f"lockfast-challenge=={version}"]
    assert "challenge" not in extras["all"][0]


def test_the_challenge_uses_public_names_and_a_short_list_of_internals():
    used = {one for one in imported_by(CHALLENGE) if one.partition(".")[0] == "lockfast"}

    assert used - {"lockfast"} == INTERNALS


def test_the_library_does_not_know_the_challenge():
    used = set(imported_by(ROOT / "src"))

    assert not [one for one in used if one.partition(".")[0] == "lockfast_challenge"]
