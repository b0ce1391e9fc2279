"""Run tests on every other supported CPython on this machine, in parallel.

`python tools/other_pythons.py [pytest arguments …]`

This uses the newest patch release of each minor version, except the version that runs this script.
Interpreters are found by name on the PATH and among pyenv's versions, and an interpreter is used
only if it runs, because a shim may point to nothing. Each interpreter gets its own environment
below `.venv`, created once, with only the packages that these tests need. If the machine has no
other Python, we say so and do nothing.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = ROOT / ".venv" / "others"
OLDEST = (3, 11)
NAME = re.compile(r"python3\.\d+")
EXTRA, GROUP = "testing", "test-core"

# A Python that cannot create an environment, or has no SQLite, is not usable for these tests.
PROBE = """\
import ensurepip, json, sqlite3, sys
print(json.dumps([sys.implementation.name, sys.version_info[:3], sys.version_info.releaselevel]))
"""


@dataclass(frozen=True)
class Python:
    """An interpreter that runs."""

    version: tuple[int, int, int]
    path: Path

    def __str__(self) -> str:
        return "Python " + ".".join(map(str, self.version))


def main(arguments: list[str]) -> int:
    """Run from the command line; the exit code is 1 if the tests failed on any Python."""
    found = others(ask(candidates(os.environ)))
    if not found:
        print("There is no other Python on this machine that Lockfast supports.")
        return 0
    print(f"On {', '.join(map(str, found))} besides:", flush=True)
    environments = [set_up(one) for one in found]
    started = [start(one, arguments) for one in environments]
    failed = False
    for python, process in zip(found, started, strict=True):
        output, _ = process.communicate()
        failed |= process.returncode != 0
        print(report(python, output, is_fine=process.returncode == 0), flush=True)
    return int(failed)


def candidates(environment: Mapping[str, str]) -> list[Path]:
    """Return paths that may be a Python, in order of preference."""
    home = Path(environment.get("HOME", "/"))
    pyenv = Path(environment.get("PYENV_ROOT") or home / ".pyenv")
    on_path = [
        file
        for folder in environment.get("PATH", os.defpath).split(os.pathsep)
        if folder and Path(folder).is_dir()
        for file in sorted(Path(folder).iterdir())
        if NAME.fullmatch(file.name)
    ]
    return [*on_path, *sorted(pyenv.glob("versions/*/bin/python"))]


def ask(paths: Iterable[Path]) -> list[Python]:
    """Return those Pythons that run and are final releases of CPython."""
    found = []
    for path in paths:
        try:
            answer = subprocess.run(
                [path, "-I", "-c", PROBE],
                check=True,
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=30,
            )
            name, version, level = json.loads(answer.stdout)
        except (OSError, ValueError, subprocess.SubprocessError):
            continue  # a shim that points to nothing, or a build without what we need
        if (name, level) == ("cpython", "final"):
            found.append(Python(tuple(version), path))
    return found


def others(
    found: Iterable[Python], *, ours: tuple[int, ...] = sys.version_info[:2]
) -> list[Python]:
    """Return the newest Python of each supported minor version other than ours."""
    newest: dict[tuple[int, ...], Python] = {}
    for one in found:
        minor = one.version[:2]
        if minor < OLDEST or minor == ours:
            continue
        if minor not in newest or newest[minor].version < one.version:
            newest[minor] = one
    return [newest[minor] for minor in sorted(newest)]


def set_up(python: Python) -> Path:
    """Return the interpreter of this Python's environment; create the environment if needed."""
    wanted = f"{ROOT}{(ROOT / 'pyproject.toml').read_text(encoding='utf-8')}"
    directory = ENVIRONMENTS / ".".join(map(str, python.version))
    interpreter = directory / "bin" / "python"
    stamp = directory / f".installed-{zlib.crc32(wanted.encode())}"
    if not stamp.exists():
        environment = "-m", "venv", "--clear", "--without-pip", directory
        subprocess.run([python.path, *environment], check=True)
        # Use our own pip, because the bundled pip may be too old for dependency groups.
        install = "-m", "pip", "--python", interpreter, "install", "--disable-pip-version-check"
        what = (
            "--editable",
            f"{ROOT}[{EXTRA}]",
            "--editable",
            f"{ROOT / 'challenge'}",
            "--group",
            GROUP,
        )
        subprocess.run([sys.executable, *install, "--quiet", *what], check=True, cwd=ROOT)
        stamp.touch()
    return interpreter


def start(interpreter: Path, arguments: list[str]) -> subprocess.Popen[str]:
    """Start the tests on one interpreter."""
    # Disable pytest's cache, because parallel runs would write the same files.
    command = [interpreter, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def report(python: Python, output: str, *, is_fine: bool) -> str:
    """Return the last line of a run that passed, or all output of one that failed."""
    lines = output.strip().splitlines()
    shown = lines[-1:] if is_fine else lines
    return "\n".join([f"{python}: {'passed' if is_fine else 'FAILED'}", *shown])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
