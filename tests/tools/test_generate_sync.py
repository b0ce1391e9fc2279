"""The sync tree says what the async source says, and nothing of it is written by hand."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import generate_sync
from sync_form import SyncForm

OURS = frozenset({"AsyncLock", "AsyncRWLock", "AsyncAllOf"})
PAIRS = {"AsyncIterator": "Iterator", "__aenter__": "__enter__", "aclose": "close"}
SOURCE = "src/holdfast/_async"
OUTPUT = "src/holdfast/_sync"

Generate = Callable[..., list[str]]


@pytest.fixture
def generate(tmp_path: Path) -> Generate:
    """Run the tool over the tree of this test, with none of Python's pairs unless given."""

    def run(pairs: Mapping[str, str] | None = None, *, check: bool = False) -> list[str]:
        return generate_sync.generate(tmp_path, pairs=pairs or {}, check=check)

    return run


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a source file of this test's tree."""

    def run(text: str, *, name: str = "lock.py", room: str = SOURCE) -> Path:
        path = tmp_path / room / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return run


def sync_of(text: str) -> str:
    """Return the sync form of a piece of source, before ruff sees it."""
    return SyncForm(ours=OURS, pairs=PAIRS).module(textwrap.dedent(text))


# The keywords.


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("async def f(): pass", "def f(): pass"),
        ("x = await f()", "x = f()"),
        ("await f()", "f()"),
        ("await   f()", "f()"),
        ("async with a, b as c: pass", "with a, b as c: pass"),
        ("async with (\n    a,\n    b,\n): pass", "with (\n    a,\n    b,\n): pass"),
        ("async for x in y: pass", "for x in y: pass"),
        ("[x async for x in y if await x]", "[x for x in y if x]"),
        ("{x: 1 async for x in y}", "{x: 1 for x in y}"),
        ("f(await a, *await b)", "f(a, *b)"),
        ("x = await \\\n    f()", "x = f()"),
        ("x = \\\n    await f()", "x = \\\n    f()"),
        ("x = (\n    await\n    f()\n)", "x = (\n    \n    f()\n)"),
        ("x = (\n    await  # why\n    f()\n)", "x = (\n    # why\n    f()\n)"),
    ],
)
def test_the_keywords_go_and_the_layout_stays(source: str, expected: str) -> None:
    assert sync_of(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("(await f()).name", "f().name"),
        ("(await f(a, (b))[0].g()).name", "f(a, (b))[0].g().name"),
        ("return_ = (await f())", "return_ = f()"),
        ("x = not (await f())", "x = not f()"),
        ("g((await f()))", "g(f())"),
        ("g(await f())", "g(f())"),
        ("g (await f())", "g (f())"),
        ("g()(await f())", "g()(f())"),
        ("(await f(), 1)", "(f(), 1)"),
        ("(await f() for _ in x)", "(f() for _ in x)"),
        ("(await f() or g).name", "(f() or g).name"),
        ("x = not(await f())", "x = not(f())"),
        ("x = 1 if(await f())else 2", "x = 1 if(f())else 2"),
        ("(await f(\n)).name", "(f(\n)).name"),
    ],
)
def test_parentheses_go_only_when_they_held_nothing_but_an_await(
    source: str, expected: str
) -> None:
    assert sync_of(source) == expected


# The names.


def test_names_are_renamed_as_whole_tokens() -> None:
    source = (
        "from holdfast._async.lock import AsyncLock\nLikeAsyncLock = my_async = AsyncLock.aclose"
    )

    assert sync_of(source) == (
        "from holdfast._sync.lock import Lock\nLikeAsyncLock = my_async = Lock.close"
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "from holdfast.runtime import aio as runtime",
            "from holdfast.runtime import threads as runtime",
        ),
        ("from holdfast.a.aio import Wire", "from holdfast.a.threads import Wire"),
        ("from holdfast.a._async.b import c", "from holdfast.a._sync.b import c"),
        (
            "from ..connection import (\n    aio as wire,\n)",
            "from ..connection import (\n    threads as wire,\n)",
        ),
        ("from .aio import Wire", "from .threads import Wire"),
        ("import holdfast.runtime.aio as runtime", "import holdfast.runtime.threads as runtime"),
        ("import os, holdfast.runtime.aio", "import os, holdfast.runtime.threads"),
        (
            "import holdfast\nholdfast.runtime.aio.spawn(f)",
            "import holdfast\nholdfast.runtime.threads.spawn(f)",
        ),
        (
            "from holdfast.runtime import aio\naio.spawn(f'{aio}', self.aio)",
            "from holdfast.runtime import threads\nthreads.spawn(f'{threads}', self.aio)",
        ),
        ("x = 'holdfast.runtime.aio'", "x = 'holdfast.runtime.threads'"),
        (
            "# See holdfast.runtime.aio, and what _async says.",
            "# See holdfast.runtime.threads, and what _sync says.",
        ),
        ("flavour = '_async'", "flavour = '_sync'"),
    ],
)
def test_a_module_of_holdfast_is_exchanged_for_its_twin(source: str, expected: str) -> None:
    assert sync_of(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "aio = _async = 1",
        "f(aio=1).aio._async",
        "raise x from aio",
        "from etcd import threads as aio",
        "x = 'grpc.aio', 'aio', 'psycopg._async'",
        "# As grpc.aio does, and aio.",
        "class Asynchronous: ...",
    ],
)
def test_what_is_called_like_a_module_of_holdfast_stays(source: str) -> None:
    assert sync_of(source) == source


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("""__all__ = ["AsyncLock"]""", """__all__ = ["Lock"]"""),
        ("""x: 'AsyncLock'""", """x: 'Lock'"""),
        ("""x = "holdfast._async.lock" """, """x = "holdfast._sync.lock" """),
        ("""x = "AsyncLock is held" """, """x = "AsyncLock is held" """),
        ("""x = "await _async" """, """x = "await _async" """),
        ("""x = b"AsyncLock" """, """x = b"AsyncLock" """),
        ("""x = ("AsyncLock" "Like")""", """x = ("Lock" "Like")"""),
        ('''x = """AsyncLock"""''', '''x = """Lock"""'''),
        ("""x = "" """, """x = "" """),
        ("""x = "AsyncClient" """, """x = "AsyncClient" """),
        ("""import etcd; x = "etcd.AsyncLock" """, """import etcd; x = "etcd.AsyncLock" """),
    ],
)
def test_a_string_changes_only_when_it_is_a_name(source: str, expected: str) -> None:
    assert sync_of(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("""f"AsyncLock {await f()}" """, """f"AsyncLock {f()}" """),
        ("""f"{AsyncLock!r:>{await width()}} await x" """, """f"{Lock!r:>{width()}} await x" """),
        ("""f"{{AsyncLock}} {AsyncLock}" """, """f"{{AsyncLock}} {Lock}" """),
        ("""f"{d['AsyncLock']} {d['a b']}" """, """f"{d['Lock']} {d['a b']}" """),
        ("""f"{(await f()).name=}" """, """f"{f().name=}" """),
        ("""f"{AsyncLock != aclose!s}" """, """f"{Lock != close!s}" """),
        ("""f"{ {AsyncLock: 1}[aclose] :aclose}" """, """f"{ {Lock: 1}[close] :aclose}" """),
        ("""rf"\\d{AsyncLock}\\{aclose}" """, """rf"\\d{Lock}\\{close}" """),
        (
            """f"\\N{LATIN SMALL LETTER A}\\n{AsyncLock}" """,
            """f"\\N{LATIN SMALL LETTER A}\\n{Lock}" """,
        ),
        ('''f"""ä {\n    AsyncLock\n} → aclose"""''', '''f"""ä {\n    Lock\n} → aclose"""'''),
        ("""f"{AsyncLock:{'}'}>{aclose}} aclose" """, """f"{Lock:{'}'}>{close}} aclose" """),
        ("""f"{f'{AsyncLock} aclose'}" """, """f"{f'{Lock} aclose'}" """),
        ("""f"é{AsyncLock}" "é"; AsyncLock""", """f"é{Lock}" "é"; Lock"""),
    ],
)
def test_an_f_string_changes_only_in_its_replacement_fields(source: str, expected: str) -> None:
    assert sync_of(source) == expected


def test_letters_beyond_ascii_move_nothing() -> None:
    source = 'x = """\n└──ô→\n  ô└──""", AsyncLock, f"└{aclose}─", aclose\n'

    assert sync_of(source) == source.replace("AsyncLock", "Lock").replace("aclose", "close")


# Prose.


def test_comments_are_kept_and_renamed_by_whole_words() -> None:
    source = """\
    # An AsyncLock (AsyncLocks are many): we await the answer of `await lock.aclose()`.
    # An AsyncClient is etcd's.
    x = 1  # asyncio, async, aclose
    """

    assert sync_of(source) == textwrap.dedent("""\
    # A Lock (AsyncLocks are many): we await the answer of `lock.close()`.
    # An AsyncClient is etcd's.
    x = 1  # asyncio, async, close
    """)


def test_the_article_fits_the_new_name() -> None:
    source = "# An AsyncLock, an `AsyncLock`, an AsyncRWLock, an AsyncAllOf, an owner, an aio\n"

    assert sync_of(source) == ("# A Lock, a `Lock`, an RWLock, an AllOf, an owner, an aio\n")


def test_a_docstring_loses_the_keywords_only_in_its_code() -> None:
    source = '''\
    async def f():
        """Give an AsyncLock to async programs that await it.

        Code in asyncio is async and can await a thing; ``async with lock`` and
        `await lock.aclose()` are code, `await` alone is a word.
            A hanging line may await prose.

            async with lock:
                await work()

            async def g(): ...

        Then we await again.

        >>> async with lock:
        ...     await work()

        ```python
        await work()
        ```

        The end of the async story.
        """
    '''

    assert sync_of(source) == textwrap.dedent('''\
    def f():
        """Give a Lock to async programs that await it.

        Code in asyncio is async and can await a thing; ``with lock`` and
        `lock.close()` are code, `await` alone is a word.
            A hanging line may await prose.

            with lock:
                work()

            def g(): ...

        Then we await again.

        >>> with lock:
        ...     work()

        ```python
        work()
        ```

        The end of the async story.
        """
    ''')


def test_a_string_that_is_a_statement_is_a_docstring_wherever_it_stands() -> None:
    source = '''\
    class A:
        x: int = 0
        """How many an AsyncLock has."""  # kept
        y = call(
            "Not an AsyncLock",
        )
    '''

    assert sync_of(source) == source.replace("    ", "", 1).replace("\n    ", "\n").replace(
        "many an AsyncLock", "many a Lock"
    )


# What only asyncio has.


def test_a_marked_line_and_a_marked_block_go() -> None:
    source = """\
    from x import (
        a,
        b,  # async only
    )
    import asyncio  # noqa: X100  # async only
    # async only: begin
    await asyncio.sleep(0)

    await asyncio.sleep(0)
    # async only: end
    text = "# async only"
    """

    assert sync_of(source) == 'from x import (\n    a,\n)\ntext = "# async only"\n'


@pytest.mark.parametrize(
    "source",
    ["# async only: begin\n", "# async only: end\n", "# async only: begin\n# async only: begin\n"],
)
def test_half_a_pair_of_markers_is_refused(
    source: str, write: Callable[..., Path], generate: Generate
) -> None:
    write(source)

    [fault] = generate()

    assert fault.startswith("src/holdfast/_async/lock.py has a `# async only: ")
    assert "without its partner" in fault


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
        # Generated from src/holdfast/_async/backends/memory.py by tools/generate_sync.py.
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
        "src/holdfast/_sync/edited.py",
        "src/holdfast/_sync/new.py",
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

    assert faults == ["src/holdfast/_sync/backends/old.py has no source: delete it."]
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

    assert fault.startswith("src/holdfast/_async/lock.py does not tokenise: ")
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

    assert fault.startswith(f"src/holdfast/_async/lock.py {complaint}: ")


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("x = AsyncDoor()\n'An AsyncGate is only a word.'\n", "AsyncDoor"),
        ("from holdfast.model import AsyncDoor\n", "AsyncDoor"),
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
        f"src/holdfast/_async/lock.py uses {name}, which no `_async` folder defines: "
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
    """Kept, it would be called without `await` in the sync tree; renamed, it would be missing."""
    write("class AsyncClient: ...\n", name="client.py")
    write(source)

    [fault] = generate()

    assert fault == (
        f"src/holdfast/_async/lock.py uses {what}, which has no sync twin: reach it through a "
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
        "from holdfast.a import AsyncSession\ndef Session(): ...\n",
        "class Session: ...\nx = AsyncSession()\n",
    ],
)
def test_a_name_whose_sync_form_is_taken_is_refused(
    source: str, write: Callable[..., Path], generate: Generate
) -> None:
    """The sync tree would have one name for two things, and the later would win."""
    write("class AsyncSession: ...\n", name="session.py")
    write(source)

    [fault] = generate()

    assert fault == (
        "src/holdfast/_async/lock.py uses AsyncSession, whose sync form Session it uses for "
        "something else: rename one of them."
    )


def test_every_folder_of_that_name_has_its_sync_twin_beside_it(
    tmp_path: Path, write: Callable[..., Path], generate: Generate
) -> None:
    """A new store is a new folder: nobody has to tell the generator of it, nor of its classes."""
    write("class AsyncStoreBackend: ...\n", name="deep/store.py", room="src/holdfast/a/b/_async")
    write(
        "from holdfast.a.b._async.deep.store import AsyncStoreBackend as Store\n__all__ = [Store]\n"
    )

    faults = generate()

    assert faults == []
    made = tmp_path / "src/holdfast/a/b/_sync/deep/store.py"
    assert made.read_text().endswith("class StoreBackend: ...\n")
    assert (
        "from holdfast.a.b._sync.deep.store import StoreBackend as Store"
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
    stray = tmp_path / "src/holdfast/a/_sync/old.py"
    stray.parent.mkdir(parents=True)
    stray.write_text("")

    assert generate() == ["src/holdfast/a/_sync/old.py has no source: delete it."]
    assert stray.exists()


def test_a_tree_without_sources_is_refused(generate: Generate) -> None:
    assert generate() == ["There is no folder called _async below src/holdfast."]


def test_the_command_prints_each_fault_and_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate_sync, "ROOT", tmp_path)

    code = generate_sync.main(["--check"])

    assert code == 1
    assert capsys.readouterr().err == "There is no folder called _async below src/holdfast.\n"
