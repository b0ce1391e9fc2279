"""The name of a constant has a subject and a unit, never a quantity alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "lockfast"
CHALLENGE = ROOT / "challenge" / "src" / "lockfast_challenge"

# Names that say only a quantity. Words of a format such as `HELD` are fine, and so are names with a
# subject and a unit such as `FIRST_PAUSE_SECONDS`.
BARE = {
    "AGAIN", "AT_ONCE", "BEAT", "ENOUGH", "EVERY", "FEW", "FIRST", "GRACE", "IDLE", "KEPT",
    "LARGEST", "LAST", "LATER", "LEAST", "LIMIT", "LONG", "LONGEST", "LOOK_AGAIN", "MANY",
    "MARGIN", "MOST", "NEVER", "PATIENCE", "PAUSE", "PORT", "QUICK", "REQUEST", "ROUND", "ROUNDS",
    "SHORT", "SHORTEST", "SILENCE", "SLOW", "SOON", "SOONEST", "TOGETHER", "WINDOW",
}  # fmt: skip


def bare_constants(package: Path) -> Iterator[str]:
    """Yield every constant whose name says only a quantity, and not what it measures."""
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if "/_sync/" not in name:
            yield from (
                f"{name}: {one}" for one in constants(path.read_text("utf-8")) if one in BARE
            )


def constants(text: str) -> Iterator[str]:
    """Yield the names that a module assigns at its top level."""
    for node in ast.parse(text).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        yield from (one.id for one in targets if isinstance(one, ast.Name))


@pytest.mark.parametrize("package", [PACKAGE, CHALLENGE])
def test_no_constant_is_a_bare_quantity(package: Path) -> None:
    assert list(bare_constants(package)) == []


def test_forever_is_defined_once() -> None:
    """`FOREVER` stands for a constant that once had twelve copies, under three names."""
    found = [
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if "FOREVER" in constants(path.read_text("utf-8"))
    ]

    assert found == ["model.py"]


def test_forever_is_spelled_by_its_name() -> None:
    """Another infinity would be a second definition."""
    found = [
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if 'float("inf")' in path.read_text("utf-8")
    ]

    assert found == ["model.py"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("IDLE = 1.0", ["core/x.py: IDLE"]),
        ("MOST: int = 3", ["core/x.py: MOST"]),
        ("INBOX_IDLE_SECONDS = 1.0\ndef f():\n    IDLE = 2", []),
    ],
)
def test_the_checker_catches_a_bare_quantity(text: str, found: list[str], tmp_path: Path) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "core/x.py").write_text(text)

    assert list(bare_constants(tmp_path)) == found
