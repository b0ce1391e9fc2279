"""A module's sync form says what its async source says, token by token."""

from __future__ import annotations

import textwrap

import pytest

from sync_form import SyncForm

OURS = frozenset({"AsyncLock", "AsyncRWLock", "AsyncAllOf"})
PAIRS = {"AsyncIterator": "Iterator", "__aenter__": "__enter__", "aclose": "close"}


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
        "from lockfast._async.lock import AsyncLock\nLikeAsyncLock = my_async = AsyncLock.aclose"
    )

    assert sync_of(source) == (
        "from lockfast._sync.lock import Lock\nLikeAsyncLock = my_async = Lock.close"
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "from lockfast.runtime import aio as runtime",
            "from lockfast.runtime import threads as runtime",
        ),
        ("from lockfast.a.aio import Wire", "from lockfast.a.threads import Wire"),
        ("from lockfast.a._async.b import c", "from lockfast.a._sync.b import c"),
        (
            "from ..connection import (\n    aio as wire,\n)",
            "from ..connection import (\n    threads as wire,\n)",
        ),
        ("from .aio import Wire", "from .threads import Wire"),
        ("from lockfast.a.pool_aio import Pool", "from lockfast.a.pool_threads import Pool"),
        (
            "from lockfast.a import pool_aio\npool_aio.Pool(self.pool_aio)",
            "from lockfast.a import pool_threads\npool_threads.Pool(self.pool_aio)",
        ),
        ("x = 'lockfast.a.pool_aio'", "x = 'lockfast.a.pool_threads'"),
        ("import lockfast.runtime.aio as runtime", "import lockfast.runtime.threads as runtime"),
        ("import os, lockfast.runtime.aio", "import os, lockfast.runtime.threads"),
        (
            "import lockfast\nlockfast.runtime.aio.spawn(f)",
            "import lockfast\nlockfast.runtime.threads.spawn(f)",
        ),
        (
            "from lockfast.runtime import aio\naio.spawn(f'{aio}', self.aio)",
            "from lockfast.runtime import threads\nthreads.spawn(f'{threads}', self.aio)",
        ),
        ("x = 'lockfast.runtime.aio'", "x = 'lockfast.runtime.threads'"),
        (
            "# See lockfast.runtime.aio, and what _async says.",
            "# See lockfast.runtime.threads, and what _sync says.",
        ),
        ("flavour = '_async'", "flavour = '_sync'"),
    ],
)
def test_a_module_of_lockfast_is_exchanged_for_its_twin(source: str, expected: str) -> None:
    assert sync_of(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "aio = _async = 1",
        "f(aio=1).aio._async",
        "from etcd import pool_aio",
        "pool_aio = x.pool_aio, 'pool_aio', 'etcd.pool_aio'",
        "raise x from aio",
        "from etcd import threads as aio",
        "x = 'grpc.aio', 'aio', 'psycopg._async'",
        "# As grpc.aio does, and aio.",
        "class Asynchronous: ...",
    ],
)
def test_what_is_called_like_a_module_of_lockfast_stays(source: str) -> None:
    assert sync_of(source) == source


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("""__all__ = ["AsyncLock"]""", """__all__ = ["Lock"]"""),
        ("""x: 'AsyncLock'""", """x: 'Lock'"""),
        ("""x = "lockfast._async.lock" """, """x = "lockfast._sync.lock" """),
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
