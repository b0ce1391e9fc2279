"""Copies of the tree in which one mutant at a time replaces a line of the library.

The clients of a challenge and of many tests are processes of their own, and much of what keeps a
lock safe is Lua or SQL. So a mutant changes the text of a copy, and not an object of one process as
`tests/challenge/defects` does for the defects that were once found.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = Path("src", "lockfast")
COPIED = ("src", "challenge", "tests", "tools", "pyproject.toml")
SOURCES = {".py", ".lua", ".sql"}
NOT_COPIED = shutil.ignore_patterns("__pycache__", ".hypothesis", "build", "dist", "*.egg-info")

TESTS_TIMEOUT_SECONDS = 600.0
"""Timeout for the tests of one mutant, in seconds; only a machine that hangs exceeds it."""
GOODBYE_SECONDS = 60.0
"""How long tests that took too long may take to stop their servers, in seconds."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of the library that makes it unsafe, and who has to notice.

    `file` is below `src/lockfast`, and `old` occurs in it exactly once. `tests` are paths below
    `tests`, with a test's name after `::` where a whole file would take long. `store` is the one
    that the challenge starts; it is empty if no client can observe the defect. `why_unseen` says
    why that is so, or why the challenge does not find the mutant.
    """

    name: str
    file: str
    old: str
    new: str
    breaks: str
    tests: tuple[str, ...]
    store: str = ""
    why_unseen: str = ""

    @property
    def path(self) -> Path:
        """The changed file, relative to the tree."""
        return LIBRARY / self.file

    def applied(self, text: str) -> str:
        """Return the file's text with the defect; raise MutantHasMoved if `old` is not unique."""
        if text.count(self.old) != 1:
            raise MutantHasMoved(
                f"{self.name}: the old text occurs {text.count(self.old)} times in {self.path}: "
                "look where that decision is made now, and say it in the table of mutants"
            )
        return text.replace(self.old, self.new)

    def key(self, judged_by: Sequence[str]) -> str:
        """Return a hash of the mutant, the file that it changes, and the files that judge it."""
        text = (ROOT / self.path).read_text(encoding="utf-8")
        entry = "\0".join((self.file, self.old, self.new, *judged_by))
        return digest(entry.encode(), text.encode(), *contents(judged_by))


class MutantHasMoved(AssertionError):
    """The mutant cannot be made, so nothing could be proved with it."""


def digest(*parts: bytes) -> str:
    """Return a short hash of the parts."""
    return hashlib.sha256(b"".join(hashlib.sha256(one).digest() for one in parts)).hexdigest()[:16]


def contents(paths: Sequence[str]) -> list[bytes]:
    """Return the contents of the files, and of all sources in the folders."""
    found = []
    for one in paths:
        path = ROOT / one.partition("::")[0]
        inside = (each for each in path.rglob("*.*") if each.suffix in SOURCES)
        found += sorted(inside) if path.is_dir() else [path]
    return [one.read_bytes() for one in found]


@dataclass(frozen=True, slots=True)
class Ran:
    """How a run of tests ended: `passed`, `failed`, or a sentence; and the tests that failed."""

    outcome: str
    failed: tuple[str, ...]
    seconds: float


class Copy:
    """A copy of what the tests need; its own library is what its processes import."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for one in COPIED:
            if (ROOT / one).is_dir():
                shutil.copytree(ROOT / one, folder / one, ignore=NOT_COPIED)
            else:
                shutil.copy2(ROOT / one, folder / one)
        (folder / ".venv").symlink_to(ROOT / ".venv")  # has the servers that the system lacks
        self._check_import()

    @contextmanager
    def with_mutant(self, mutant: Mutant) -> Iterator[None]:
        """Put the mutant into the library, in both flavours, until the block ends."""
        path = self.folder / mutant.path
        generated = self.folder / str(mutant.path).replace("_async", "_sync")
        before = {one: one.read_text(encoding="utf-8") for one in {path, generated}}
        try:
            path.write_text(mutant.applied(before[path]), encoding="utf-8")
            if generated != path:
                self._run("tools/generate_sync.py")
                if generated.read_text(encoding="utf-8") == before[generated]:
                    raise MutantHasMoved(f"{mutant.name} changes nothing in the sync flavour")
            _forget_compiled(before)
            yield
        finally:
            for one, text in before.items():
                one.write_text(text, encoding="utf-8")
            _forget_compiled(before)

    def run_tests(self, tests: Sequence[str], *, all_of_them: bool = False) -> Ran:
        """Run the tests until the first one fails, or all of them."""
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += [*([] if all_of_them else ["-x"]), *(f"tests/{one}" for one in tests)]
        patience = TESTS_TIMEOUT_SECONDS * (len(tests) if all_of_them else 1)
        begun = time.monotonic()
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            output, _ = process.communicate(timeout=patience)
            outcome = {0: "passed", 1: "failed"}.get(process.returncode, "")
        except subprocess.TimeoutExpired:
            output = _ended(process)
            outcome = f"the tests took longer than {patience:.0f} s"
        failed = tuple(re.findall(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE))
        outcome = outcome or f"pytest ended with exit code {process.returncode}: {output[-2000:]}"
        return Ran(outcome, failed, time.monotonic() - begun)

    def _check_import(self) -> None:
        """Raise if processes of this copy would import another library than this copy's."""
        for package in ("lockfast", "lockfast_challenge"):
            path = self._run("-c", f"import {package}; print({package}.__file__)").strip()
            if self.folder.resolve() not in Path(path).resolve().parents:
                raise AssertionError(f"{path} would be tested, and not the copy of it")

    def _run(self, *arguments: str) -> str:
        options: dict[str, Any] = {"cwd": self.folder, "env": self._environment(), "text": True}
        command = [sys.executable, *arguments]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, **options).stdout

    def _environment(self) -> dict[str, str]:
        paths = [str(self.folder / part) for part in ("src", "challenge/src")]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _ended(process: subprocess.Popen[str]) -> str:
    """End tests that took too long, and return their output."""
    process.send_signal(signal.SIGINT)  # lets the tests stop their servers
    try:
        return process.communicate(timeout=GOODBYE_SECONDS)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0]


def _forget_compiled(paths: Iterable[Path]) -> None:
    """Delete compiled files, which could be taken for those of a text of equal length."""
    for one in paths:
        shutil.rmtree(one.parent / "__pycache__", ignore_errors=True)
