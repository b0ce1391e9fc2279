"""Write the sync flavour of Lockfast from its async source, token by token.

The complete rules:

* The keywords ``async`` and ``await`` are removed, with parentheses that only held an ``await``.
* Every folder called ``_async`` below the package has a ``_sync`` folder beside it. They are
  discovered, not listed.
* A name ``AsyncThing`` that one of these sources defines becomes ``Thing``, and one of Python's own
  names in `PAIRS` becomes its counterpart. This also applies to whole words in comments and
  docstrings, and to whole string literals, dotted ones included (``"AsyncLock"``,
  ``"lockfast.client._async.lock"``). No other string changes; in an f-string only the replacement
  fields are code.
* ``_async``, ``aio`` and ``x_aio`` become ``_sync``, ``threads`` and ``x_threads`` as modules of
  Lockfast, and only there: in an import from ``lockfast`` or in a path that begins with it.
* Anything that would silently make the sync tree wrong is an error: a name that begins with
  ``Async``, or a method of asyncio's protocols, that is neither defined in a source nor listed in a
  pair; the asyncio-only part of another library (``grpc.aio``, its ``AsyncClient``), unless the
  line is marked as below; and a name whose sync form means something else in the same module.
* ``Awaitable[X]`` and ``Coroutine[Any, Any, X]`` become ``X``.
* Prose keeps the words "async" and "await". They are only removed from code inside it: backticks,
  lines that begin with ``>>>`` or ``...``, fences, and blocks indented by four after a blank line.
* A line that ends in ``# async only`` is removed, and so is everything from a line ``# async only:
  begin`` to a line ``# async only: end``. Use these sparingly: each is a place where the flavours
  drift apart unnoticed. A difference of more than a line belongs in `lockfast.runtime`.

Then ruff formats the result, sorts its imports and drops those that only asyncio needed, so that
the output depends on nothing else.

All or nothing: if anything is wrong, each error is reported in one sentence and no file is written.
A file that no source generates is reported and left for you to delete.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from async_names import PAIRS, defined_in
from python_source import Unconvertible
from sync_form import SyncForm

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "src/lockfast"

HEADER = """\
# Generated from {source} by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; the exit code is 1 when something is wrong."""
    parser = argparse.ArgumentParser(description="Write the sync flavour from the async source.")
    parser.add_argument("--check", action="store_true", help="write nothing, only compare")
    check = parser.parse_args(arguments).check

    faults = generate(ROOT, check=check)
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


def generate(root: Path, *, pairs: Mapping[str, str] = PAIRS, check: bool = False) -> list[str]:
    """Update the output trees; return the errors, one sentence each.

    With `check` nothing is written, and an output that would change is an error too.
    """
    sources = list(_sources(root / PACKAGE))
    if not sources:
        return [f"There is no folder called _async below {PACKAGE}."]
    form = SyncForm(ours=defined_in(map(_read, sources)), pairs=pairs)
    faults: list[str] = []
    outputs: dict[Path, str] = {}
    unreadable = False
    for source in sources:
        name = source.relative_to(root).as_posix()
        output = root / _twin(source.relative_to(root))
        try:
            outputs[output] = HEADER.format(source=name) + form.module(_read(source))
        except Unconvertible as error:
            faults.append(f"{name} {error}.")
            unreadable = True
            outputs[output] = ""
    faults += _strays(root, expected=outputs)
    # A source that could not be converted might have used any pair, so no pair is reported as
    # unused.
    if not unreadable:
        faults += form.unused()
    if faults:
        return faults

    outputs = _tidied(outputs, root=root)
    changed = [path for path, text in outputs.items() if not path.exists() or _read(path) != text]
    if check:
        return [
            f"{path.relative_to(root).as_posix()} is not what its source generates: "
            "run `make generate`."
            for path in changed
        ]
    for path in changed:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(outputs[path], encoding="utf-8", newline="\n")
    return []


def _sources(package: Path) -> Iterator[Path]:
    """Yield the files below each folder called `_async`; a new folder needs no registration."""
    for path in sorted(package.rglob("*.py")):
        if "_async" in path.relative_to(package).parts[:-1]:
            yield path


def _twin(source: Path) -> Path:
    """Return the path of a source's sync form, in the `_sync` folder beside its `_async` folder."""
    return Path(*("_sync" if part == "_async" else part for part in source.parts))


def _strays(root: Path, *, expected: Mapping[Path, str]) -> list[str]:
    return [
        f"{path.relative_to(root).as_posix()} has no source: delete it."
        for path in sorted((root / PACKAGE).rglob("*"))
        if "_sync" in path.relative_to(root).parts
        if path.is_file() and path not in expected and "__pycache__" not in path.parts
    ]


def _tidied(outputs: Mapping[Path, str], *, root: Path) -> dict[Path, str]:
    """Sort the imports and format, with the settings of the project.

    This happens in a temporary folder, so that no half-finished file can be imported.
    """
    settings = root / "pyproject.toml"
    config = ["--config", str(settings)] if settings.exists() else ["--isolated"]
    with tempfile.TemporaryDirectory() as directory:
        drafts = {path: Path(directory, path.relative_to(root)) for path in outputs}
        for path, draft in drafts.items():
            draft.parent.mkdir(parents=True, exist_ok=True)
            draft.write_text(outputs[path], encoding="utf-8", newline="\n")
        for command in (["check", "--select", "I,F401", "--fix-only"], ["format"]):
            subprocess.run(
                [sys.executable, "-m", "ruff", *command, *config, "--quiet", "--no-cache"]
                + [str(draft) for draft in drafts.values()],
                check=True,
                cwd=root,
            )
        return {path: _read(draft) for path, draft in drafts.items()}


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
