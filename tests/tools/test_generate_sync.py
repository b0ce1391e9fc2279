"""The sync tree says what the async source says, and nothing of it is written by hand."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import generate_sync

RENAMES = {
    "AsyncLock": "Lock",
    "AsyncIterator": "Iterator",
    "__aenter__": "__enter__",
    "aclose": "close",
    "_async": "_sync",
    "aio": "threads",
}
SOURCE = "src/holdfast/_async"
OUTPUT = "src/holdfast/_sync"

Generate = Callable[..., list[str]]


@pytest.fixture
def generate(tmp_path: Path) -> Generate:
    """Run the tool over the tree of this test, with no rename rules unless given."""

    def run(renames: Mapping[str, str] | None = None, *, check: bool = False) -> list[str]:
        return generate_sync.generate(
            tmp_path, trees=[(SOURCE, OUTPUT)], renames=renames or {}, check=check
        )

    return run


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a source file of this test's tree."""

    def run(text: str, *, name: str = "lock.py") -> Path:
        path = tmp_path / SOURCE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return run


def sync_of(text: str, **renames: str) -> str:
    """Return the sync form of a piece of source, before ruff sees it."""
    return generate_sync.Flavour(renames or RENAMES).module(textwrap.dedent(text))


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


def test_the_runtime_is_exchanged_by_its_name() -> None:
    assert sync_of("from holdfast.runtime import aio as runtime") == (
        "from holdfast.runtime import threads as runtime"
    )


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
        ("""f"{AsyncLock != aio!s}" """, """f"{Lock != threads!s}" """),
        ("""f"{ {AsyncLock: 1}[aio] :aio}" """, """f"{ {Lock: 1}[threads] :aio}" """),
        ("""rf"\\d{AsyncLock}\\{aio}" """, """rf"\\d{Lock}\\{threads}" """),
        (
            """f"\\N{LATIN SMALL LETTER A}\\n{AsyncLock}" """,
            """f"\\N{LATIN SMALL LETTER A}\\n{Lock}" """,
        ),
        ('''f"""ä {\n    AsyncLock\n} → aio"""''', '''f"""ä {\n    Lock\n} → aio"""'''),
        ("""f"{AsyncLock:{'}'}>{aio}} aio" """, """f"{Lock:{'}'}>{threads}} aio" """),
        ("""f"{f'{AsyncLock} aio'}" """, """f"{f'{Lock} aio'}" """),
        ("""f"é{AsyncLock}" "é"; AsyncLock""", """f"é{Lock}" "é"; Lock"""),
    ],
)
def test_an_f_string_changes_only_in_its_replacement_fields(source: str, expected: str) -> None:
    assert sync_of(source) == expected


def test_letters_beyond_ascii_move_nothing() -> None:
    source = 'x = """\n└──ô→\n  ô└──""", AsyncLock, f"└{aio}─", aio\n'

    assert sync_of(source) == source.replace("AsyncLock", "Lock").replace("aio", "threads")


# Prose.


def test_comments_are_kept_and_renamed_by_whole_words() -> None:
    source = """\
    # An AsyncLock (AsyncLocks are many): we await the answer of `await lock.aclose()`.
    x = 1  # asyncio, async, aclose
    """

    assert sync_of(source) == textwrap.dedent("""\
    # A Lock (AsyncLocks are many): we await the answer of `lock.close()`.
    x = 1  # asyncio, async, close
    """)


def test_the_article_fits_the_new_name() -> None:
    source = "# An AsyncLock, an `AsyncLock`, an AsyncRWLock, an AsyncAllOf, an owner, an aio\n"
    renames = {"AsyncLock": "Lock", "AsyncRWLock": "RWLock", "AsyncAllOf": "AllOf"}

    assert sync_of(source, **renames) == (
        "# A Lock, a `Lock`, an RWLock, an AllOf, an owner, an aio\n"
    )


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
def test_a_rule_that_no_source_uses_is_refused(
    tmp_path: Path, write: Callable[..., Path], generate: Generate, *, check: bool
) -> None:
    write("x = AsyncLock\n")

    faults = generate({"AsyncLock": "Lock", "aclose": "close"}, check=check)

    assert faults == [
        "The rename rule aclose -> close is used by no source: delete it from RENAMES."
    ]
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
        ("class AsyncDoor:\n    'An AsyncGate is only a word.'\n", "AsyncDoor"),
        ("class Door:\n    def __aiter__(self): ...\n", "__aiter__"),
    ],
)
def test_an_async_name_without_a_rule_is_refused(
    source: str, name: str, write: Callable[..., Path], generate: Generate
) -> None:
    write(source)

    assert generate() == [
        f"src/holdfast/_async/lock.py uses {name}, which has no rule: add it to RENAMES."
    ]


def test_a_missing_source_tree_is_refused(generate: Generate) -> None:
    assert generate() == ["The source tree src/holdfast/_async does not exist."]


def test_the_command_prints_each_fault_and_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate_sync, "TREES", [(str(tmp_path / "a"), str(tmp_path / "b"))])
    monkeypatch.setattr(generate_sync, "RENAMES", {})

    code = generate_sync.main(["--check"])

    assert code == 1
    assert capsys.readouterr().err == f"The source tree {tmp_path / 'a'} does not exist.\n"
