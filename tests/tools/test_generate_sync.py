"""The sync tree says what the async source says, and none of it is written by hand."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import generate_sync

SOURCE = "src/lockfast/_async"
OUTPUT = "src/lockfast/_sync"

Generate = Callable[..., list[str]]


@pytest.fixture
def generate(tmp_path: Path) -> Generate:
    """Run the tool on this test's tree, by default without any of Python's pairs."""

    def run(pairs: Mapping[str, str] | None = None, *, check: bool = False) -> list[str]:
        return generate_sync.generate(tmp_path, pairs=pairs or {}, check=check)

    return run


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a source file into this test's tree."""

    def run(text: str, *, name: str = "lock.py", room: str = SOURCE) -> Path:
        path = tmp_path / room / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return run


# The tree.


def test_the_output_is_headed_formatted_and_has_its_imports_in_order(
    tmp_path: Path, write: Callable[..., Path], generate: Generate
) -> None:
    write(
        """\
        \"\"\"A module.\"\"\"
        from typing import Awaitable, Iterator, AsyncIterator
        import os
        async def f( x: Iterator ): return (await x(os))
        task: Awaitable  # async only
        """,
        name="backends/memory.py",
    )

    faults = generate({"AsyncIterator": "Iterator"})

    assert faults == []
    assert (tmp_path / OUTPUT / "backends/memory.py").read_text() == textwrap.dedent('''\
        # Generated from src/lockfast/_async/backends/memory.py by tools/generate_sync.py.
        # Do not edit: change the source and run `make generate`.
        """A module."""

        import os
        from typing import Iterator


        def f(x: Iterator):
            return x(os)
        ''')


def test_the_settings_of_the_project_decide_the_format(
    tmp_path: Path, write: Callable[..., Path], generate: Generate
) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.ruff.format]\nquote-style = 'single'\n")
    write('x = "a"\n')

    generate()

    assert "x = 'a'" in (tmp_path / OUTPUT / "lock.py").read_text()


def test_a_second_run_changes_nothing(
    tmp_path: Path, write: Callable[..., Path], generate: Generate
) -> None:
    write("async def f(): pass\n")
    generate()
    output = tmp_path / OUTPUT / "lock.py"
    before = output.read_text(), output.stat().st_mtime_ns

    faults = generate()

    assert faults == []
    assert (output.read_text(), output.stat().st_mtime_ns) == before


def test_a_check_names_what_differs_and_writes_nothing(
    tmp_path: Path, write: Callable[..., Path], generate: Generate
) -> None:
    write("async def f(): pass\n", name="same.py")
    write("async def f(): pass\n", name="edited.py")
    generate()
    write("async def f(): pass\n", name="new.py")
    edited = tmp_path / OUTPUT / "edited.py"
    edited.write_text("by hand\n")

    faults = generate(check=True)

    assert [fault.partition(" ")[0] for fault in faults] == [
        "src/lockfast/_sync/edited.py",
        "src/lockfast/_sync/new.py",
    ]
    assert edited.read_text() == "by hand\n"
    assert not (tmp_path / OUTPUT / "new.py").exists()


def test_a_check_of_what_was_just_generated_finds_nothing(
    write: Callable[..., Path], generate: Generate
) -> None:
    write("async def f(): pass\n")
    generate()

    assert generate(check=True) == []


# What is refused.


@pytest.mark.parametrize(
    "source",
    ["# async only: begin\n", "# async only: end\n", "# async only: begin\n# async only: begin\n"],
)
def test_half_a_pair_of_markers_is_refused(
    source: str, write: Callable[..., Path], generate: Generate
) -> None:
    write(source)

    [fault] = generate()

    assert fault.startswith("src/lockfast/_async/lock.py has a `# async only: ")
    assert "without its partner" in fault


@pytest.mark.parametrize("check", [False, True])
def test_a_pair_that_no_source_uses_is_refused(
    tmp_path: Path, write: Callable[..., Path], generate: Generate, *, check: bool
) -> None:
    write("x: AsyncIterator\n")

    faults = generate({"AsyncIterator": "Iterator", "aclose": "close"}, check=check)

    assert faults == ["The pair aclose -> close is used by no source: delete it from PAIRS."]
    assert not (tmp_path / OUTPUT).exists()


@pytest.mark.parametrize("check", [False, True])
def test_a_stray_file_is_named_and_kept(
    tmp_path: Path, write: Callable[..., Path], generate: Generate, *, check: bool
) -> None:
    write("x = 1\n")
    generate()
    stray = tmp_path / OUTPUT / "backends" / "old.py"
    stray.parent.mkdir()
    stray.write_text("")
    (tmp_path / OUTPUT / "__pycache__").mkdir()
    (tmp_path / OUTPUT / "__pycache__" / "lock.pyc").write_text("")

    faults = generate(check=check)

    assert faults == ["src/lockfast/_sync/backends/old.py has no source: delete it."]
    assert stray.exists()


@pytest.mark.parametrize(
    "broken", ["x = (\n", "x = 'unfinished\n", "x = '''unfinished\n", "if x:\n  y\n z\n"]
)
def test_a_source_that_does_not_tokenise_is_refused_and_nothing_is_written(
    tmp_path: Path, broken: str, write: Callable[..., Path], generate: Generate
) -> None:
    write("x = 1\n", name="fine.py")
    write(broken)

    [fault] = generate({"aclose": "close"})

    assert fault.startswith("src/lockfast/_async/lock.py does not tokenise: ")
    assert "\n" not in fault
    assert not (tmp_path / OUTPUT).exists()


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("x = = 1\n", "is not valid Python"),
        ("if x:\n    y  # async only\n", "has a sync form that is not valid Python"),
    ],
)
def test_a_source_or_a_result_that_is_not_python_is_refused(
    source: str, complaint: str, write: Callable[..., Path], generate: Generate
) -> None:
    write(source)

    [fault] = generate()

    assert fault.startswith(f"src/lockfast/_async/lock.py {complaint}: ")


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("x = AsyncDoor()\n'An AsyncGate is only a word.'\n", "AsyncDoor"),
        ("from lockfast.model import AsyncDoor\n", "AsyncDoor"),
        ("x = f'{self.AsyncDoor}'\n", "AsyncDoor"),
        ("class Door:\n    def __aiter__(self): ...\n", "__aiter__"),
    ],
)
def test_an_async_name_that_is_nobodys_is_refused(
    source: str, name: str, write: Callable[..., Path], generate: Generate
) -> None:
    write(source)

    [fault] = generate()

    assert fault == (
        f"src/lockfast/_async/lock.py uses {name}, which no `_async` folder defines: "
        "a pair of Python's own belongs into PAIRS."
    )


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("from etcd import AsyncClient\n", "AsyncClient of etcd"),
        ("from etcd import AsyncClient as Client\n", "AsyncClient of etcd"),
        ("import etcd\nx = etcd.client.AsyncClient()\n", "AsyncClient of etcd"),
        ("import etcd as e\nx = f'{e.AsyncClient}'\n", "AsyncClient of etcd"),
        ("from contextlib import AsyncExitStack\n", "AsyncExitStack of contextlib"),
        ("import grpc.aio\n", "aio of grpc"),
        ("from grpc import aio\n", "aio of grpc"),
        ("from grpc.aio import Channel\n", "aio of grpc"),
        ("import grpc\nx = grpc.aio.insecure_channel()\n", "aio of grpc"),
        ("import redis.asyncio as redis\n", "asyncio of redis"),
        ("import asyncio\n", "asyncio"),
        ("def f():\n    from psycopg._async import x\n", "_async of psycopg"),
    ],
)
def test_what_only_a_foreign_asyncio_library_has_is_refused(
    source: str, what: str, write: Callable[..., Path], generate: Generate
) -> None:
    """If kept, the name would be called without `await`; if renamed, it would not exist."""
    write("class AsyncClient: ...\n", name="client.py")
    write(source)

    [fault] = generate()

    assert fault == (
        f"src/lockfast/_async/lock.py uses {what}, which has no sync twin: reach it through a "
        "hand-written pair (aio.py and threads.py), or mark the line `# async only`."
    )


def test_what_is_marked_as_only_asyncios_may_be_foreign(
    write: Callable[..., Path], generate: Generate
) -> None:
    write("import asyncio  # async only\nfrom etcd import AsyncClient  # async only\n")

    assert generate() == []


@pytest.mark.parametrize(
    "source",
    [
        "from kazoo import Session\nclass AsyncSession: ...\n",
        "from lockfast.a import AsyncSession\ndef Session(): ...\n",
        "class Session: ...\nx = AsyncSession()\n",
    ],
)
def test_a_name_whose_sync_form_is_taken_is_refused(
    source: str, write: Callable[..., Path], generate: Generate
) -> None:
    """The sync tree would have one name for two things, and the later one would win."""
    write("class AsyncSession: ...\n", name="session.py")
    write(source)

    [fault] = generate()

    assert fault == (
        "src/lockfast/_async/lock.py uses AsyncSession, whose sync form Session it uses for "
        "something else: rename one of them."
    )


def test_every_folder_of_that_name_has_its_sync_twin_beside_it(
    tmp_path: Path, write: Callable[..., Path], generate: Generate
) -> None:
    """A new store is a new folder: nothing in the folder is registered with the generator."""
    write("class AsyncStoreBackend: ...\n", name="deep/store.py", room="src/lockfast/a/b/_async")
    write(
        "from lockfast.a.b._async.deep.store import AsyncStoreBackend as Store\n__all__ = [Store]\n"
    )

    faults = generate()

    assert faults == []
    made = tmp_path / "src/lockfast/a/b/_sync/deep/store.py"
    assert made.read_text().endswith("class StoreBackend: ...\n")
    assert (
        "from lockfast.a.b._sync.deep.store import StoreBackend as Store"
        in (tmp_path / OUTPUT / "lock.py").read_text()
    )


def test_a_folder_of_that_name_above_the_tree_is_nobodys_business(tmp_path: Path) -> None:
    root = tmp_path / "_async"
    (root / SOURCE).mkdir(parents=True)
    (root / SOURCE / "lock.py").write_text("x = 1\n")

    assert generate_sync.generate(root, pairs={}) == []
    assert (root / OUTPUT / "lock.py").exists()


def test_a_sync_folder_without_a_source_is_named_and_kept(
    tmp_path: Path, write: Callable[..., Path], generate: Generate
) -> None:
    write("x = 1\n")
    stray = tmp_path / "src/lockfast/a/_sync/old.py"
    stray.parent.mkdir(parents=True)
    stray.write_text("")

    assert generate() == ["src/lockfast/a/_sync/old.py has no source: delete it."]
    assert stray.exists()


def test_a_tree_without_sources_is_refused(generate: Generate) -> None:
    assert generate() == ["There is no folder called _async below src/lockfast."]


def test_the_command_prints_each_fault_and_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate_sync, "ROOT", tmp_path)

    code = generate_sync.main(["--check"])

    assert code == 1
    assert capsys.readouterr().err == "There is no folder called _async below src/lockfast.\n"
