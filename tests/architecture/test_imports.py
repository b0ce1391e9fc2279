"""Imports point one way, stores do not import each other, and `import lockfast` is stdlib only."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "lockfast"

# A layer may import itself and the rows before its own; layers of one row may not import each
# other.
ROWS = (
    ("model", "events"),
    ("errors",),
    ("options",),
    ("core",),
    ("platforms",),
    ("runtime",),
    ("dbapi",),
    ("observe",),
    ("port",),  # backends/_async and backends/_sync: what every store answers.
    ("client", "backends"),  # a store knows the port, never the client
    ("urls",),
    ("lockfast",),  # lockfast/__init__.py: the public names.
    ("fencing", "sql_rows", "testing"),
    ("cli",),
    ("__main__",),
)
ROW = {layer: number for number, row in enumerate(ROWS) for layer in row}

# The client finds its backend by URL, and the backends are built on the client's own layer. So
# these files import the other side inside functions only.
LAZY = {("client/_async/locks.py", "urls"), ("client/_sync/locks.py", "urls")}

# For each flavour, the name of its tree and the ending of its hand-written modules, as in `aio.py`
# and `connection_aio.py`.
FLAVOURS = (("_async", "aio"), ("_sync", "threads"))

# Stores do not import each other, so that each can be read, changed and removed on its own.
SHARED = {"network", "waiting"}
KNOWS = {
    "network": set(),
    "waiting": set(),
    "redlock": {"redis"},  # redlock asks several Redis servers
    "sqlite": {"sql"},
    "postgresql": {"sql"},
    "mysql": {"sql"},
    "zookeeper": {"sessions"},
    "etcd": {"sessions"},
}

# core decides from values alone; whatever it needs from these modules is passed in.
FORBIDDEN_IN_CORE = {"asyncio", "os", "random", "secrets", "socket", "threading", "time"}


@dataclass(frozen=True)
class Import:
    """A module that a file imports, by its full name."""

    module: str
    line: int
    is_lazy: bool


def violations(package: Path) -> list[str]:
    """Return what is wrong with the imports of all modules below `package`."""
    return [
        f"{path.relative_to(package).as_posix()}:{found.line} imports {found.module}: {reason}"
        for path in sorted(package.rglob("*.py"))
        for found in imports(path, package)
        if (reason := objection(path.relative_to(package), found))
    ]


def objection(path: Path, found: Import) -> str | None:
    """Return why this file must not import that module, or None if it may."""
    layer = layer_of(path)
    root, *rest = found.module.split(".")
    if root != "lockfast":
        is_forbidden = layer == "core" and root in FORBIDDEN_IN_CORE
        return "core decides, and never acts" if is_forbidden else None
    if flavours_of(path.with_suffix("").parts) ^ flavours_of(rest) == {0, 1}:
        return "the flavours never import each other"
    target = "port" if is_port(rest) else rest[0] if rest else "lockfast"
    if (path.as_posix(), target) in LAZY:
        return None if found.is_lazy else f"{target} only inside a function"
    return objection_to_layer(layer, target) or objection_to_room(path, rest)


def objection_to_layer(layer: str, target: str) -> str | None:
    """Return why one layer must not import the other."""
    for name in (layer, target):
        if name not in ROW:
            return f"{name} has no layer"
    if target != layer and ROW[target] >= ROW[layer]:
        return f"{layer} stands before {target}, or beside it"
    return None


def objection_to_room(path: Path, rest: Sequence[str]) -> str | None:
    """Return why a file of a store must not import that module."""
    if path.parts[0] != "backends" or rest[:1] != ["backends"] or is_port(rest):
        return None
    store = path.parts[1] if len(path.parts) > 2 else ""
    other = rest[1] if len(rest) > 1 else store
    shared = SHARED - {store} if store not in SHARED else set()
    if other == store or other in shared | KNOWS.get(store, set()):
        return None
    return f"{store or 'the room of all stores'} does not know {other}"


def flavours_of(parts: Sequence[str]) -> set[int]:
    """Return the flavour that the path of a file or a module names, if it names one."""
    return {
        number
        for number, (folder, pair) in enumerate(FLAVOURS)
        if any(part in (folder, pair) or part.endswith(f"_{pair}") for part in parts)
    }


def is_port(parts: Sequence[str]) -> bool:
    """Return whether a path below the package leads into the port."""
    return parts[0] == "backends" and parts[1:2] in (["_async"], ["_sync"]) if parts else False


def layer_of(path: Path) -> str:
    """Return the layer of a file, given by its path below the package."""
    if is_port(list(path.parts)):
        return "port"
    first = path.parts[0].removesuffix(".py")
    return "lockfast" if first == "__init__" else first


def imports(path: Path, package: Path) -> Iterator[Import]:
    """Yield every import of a file, including those in functions and for type checkers."""
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    lazy = {
        id(inner)
        for outer in ast.walk(tree)
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(outer)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = list(sources(node, path, package))
        else:
            continue
        for module in modules:
            yield Import(module, node.lineno, is_lazy=id(node) in lazy)


def sources(node: ast.ImportFrom, path: Path, package: Path) -> Iterator[str]:
    """Return the modules of a `from` import, absolute; `from a import b` may mean a.b."""
    base = node.module or ""
    if node.level:
        here = ("lockfast", *path.relative_to(package).parent.parts)
        base = ".".join((*here[: len(here) - node.level + 1], *filter(None, [node.module])))
    for alias in node.names:
        inner = package.joinpath(*base.split(".")[1:], alias.name)
        is_module = inner.is_dir() or inner.with_suffix(".py").exists()
        yield f"{base}.{alias.name}" if base.split(".")[0] == "lockfast" and is_module else base


def test_imports_point_one_way() -> None:
    assert PACKAGE.joinpath("__init__.py").exists()
    assert violations(PACKAGE) == []


def test_importing_lockfast_needs_the_standard_library_alone() -> None:
    program = """
        import sys
        before = set(sys.modules)
        import lockfast
        print(*sorted(set(sys.modules) - before))
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]

    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()

    foreign = {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names
    assert "lockfast" in loaded
    assert foreign == {"lockfast"}
    assert "sqlite3" not in loaded


# Tests of the checker itself.


@pytest.fixture
def complaints(tmp_path: Path) -> Callable[[str, str], list[str]]:
    """Return what the checker reports for one file in a small package that is otherwise fine."""
    for name in (
        "__init__",
        "errors",
        "urls",
        "core/admission",
        "backends/_async/backend",
        "client/_async/locks",
        "client/_sync/lock",
        "backends/redis/_async/backend",
        "backends/redis/connection_threads",
        "backends/sql/rows",
        "backends/sessions/line",
    ):
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text("import json\n")
    assert violations(tmp_path) == []

    def check(name: str, text: str) -> list[str]:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)
        return violations(tmp_path)

    return check


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("errors.py", "import lockfast.urls", "errors stands before urls, or beside it"),
        ("errors.py", "from lockfast import urls", "errors stands before urls, or beside it"),
        ("errors.py", "from . import urls", "errors stands before urls, or beside it"),
        ("errors.py", "from lockfast import Lock", "errors stands before lockfast, or beside it"),
        (
            "core/quorum.py",
            "from ..urls import x",
            "core stands before urls, or beside it",
        ),
        (
            "core/quorum.py",
            "def f():\n    from lockfast.client._async import locks",
            "core stands before client, or beside it",
        ),
        (
            "model.py",
            "if TYPE_CHECKING:\n    import lockfast.core.admission",
            "model stands before core, or beside it",
        ),
        ("core/quorum.py", "import time", "core decides, and never acts"),
        ("core/quorum.py", "from os.path import join", "core decides, and never acts"),
        (
            "_async/x.py",
            "import lockfast.client._sync.lock",
            "the flavours never import each other",
        ),
        ("_sync/x.py", "from .._async import locks", "the flavours never import each other"),
        (
            "testing/_sync/x.py",
            "import lockfast.client._async",
            "the flavours never import each other",
        ),
        (
            "testing/_async/x.py",
            "from lockfast.testing._sync import y",
            "the flavours never import each other",
        ),
        ("client/_async/locks.py", "from lockfast.urls import x", "urls only inside a function"),
        (
            "client/_async/lock.py",
            "def f():\n    import lockfast.urls",
            "client stands before urls, or beside it",
        ),
        ("__init__.py", "import lockfast.testing", "lockfast stands before testing, or beside it"),
        (
            "fencing/sql.py",
            "import lockfast.testing",
            "fencing stands before testing, or beside it",
        ),
        ("helpers.py", "import lockfast.errors", "helpers has no layer"),
        (
            "backends/redis/_async/waiting.py",
            "from lockfast.client._async.locks import AsyncLocks",
            "backends stands before client, or beside it",
        ),
        (
            "backends/redis/_sync/waiting.py",
            "if TYPE_CHECKING:\n    from lockfast.client._sync import lock",
            "backends stands before client, or beside it",
        ),
        (
            "backends/redis/address.py",
            "import lockfast.client._async",
            "backends stands before client, or beside it",
        ),
        (
            "backends/waiting/_async/wakeups.py",
            "from lockfast.client._async.locks import AsyncLocks",
            "backends stands before client, or beside it",
        ),
        (
            "client/_async/lock.py",
            "import lockfast.backends",
            "client stands before backends, or beside it",
        ),
        (
            "backends/sqlite/rows.py",
            "from lockfast.backends.redis._async import backend",
            "sqlite does not know redis",
        ),
        ("backends/sqlite/rows.py", "from ..redis import resp", "sqlite does not know redis"),
        (
            "backends/redis/routing.py",
            "import lockfast.backends.redlock.quorum",
            "redis does not know redlock",
        ),
        (
            "backends/redis/routing.py",
            "from lockfast.backends import sql",
            "redis does not know sql",
        ),
        ("backends/sql/door_rows.py", "import lockfast.backends.mysql", "sql does not know mysql"),
        (
            "backends/sessions/line.py",
            "import lockfast.backends.zookeeper",
            "sessions does not know zookeeper",
        ),
        (
            "backends/zookeeper/nodes.py",
            "import lockfast.backends.etcd",
            "zookeeper does not know etcd",
        ),
        (
            "backends/__init__.py",
            "import lockfast.backends.redis",
            "the room of all stores does not know redis",
        ),
        (
            "backends/redis/_sync/backend.py",
            "from lockfast.backends.redis._async import backend",
            "the flavours never import each other",
        ),
        (
            "backends/redis/_async/waiting.py",
            "from lockfast.backends.redis import connection_threads",
            "the flavours never import each other",
        ),
        (
            "backends/redis/connection_aio.py",
            "from lockfast.backends.redis.connection_threads import Wire",
            "the flavours never import each other",
        ),
        (
            "runtime/threads.py",
            "from lockfast.runtime.aio import WakeEvent",
            "the flavours never import each other",
        ),
        ("urls.py", "import lockfast.helpers", "helpers has no layer"),
    ],
)
def test_the_checker_catches_a_wrong_import(
    name: str, text: str, complaint: str, complaints: Callable[[str, str], list[str]]
) -> None:
    [found] = complaints(name, text)

    assert found.startswith(f"{name}:")
    assert found.endswith(f": {complaint}")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("urls.py", "from lockfast.client._async import locks\nimport lockfast.client._sync.lock"),
        ("core/quorum.py", "from lockfast.core.admission import x\nfrom .admission import y"),
        ("client/_async/locks.py", "def f():\n    from lockfast.urls import x"),
        ("client/_sync/locks.py", "def f():\n    from lockfast import urls"),
        ("client/_async/lock.py", "import time, asyncio\nfrom . import locks"),
        ("__init__.py", "from lockfast.client._async.locks import x\nfrom lockfast.urls import y"),
        (
            "testing/_sync/x.py",
            "from lockfast.client._sync.lock import x\nfrom lockfast import Lock",
        ),
        ("cli/demo.py", "import lockfast.testing\nimport lockfast.urls"),
        (
            "backends/redis/_async/waiting.py",
            "from lockfast.backends._async.backend import x",
        ),
        (
            "backends/redis/_async/waiting.py",
            "from lockfast.backends.redis import resp\nfrom . import backend",
        ),
        ("backends/redlock/quorum.py", "from lockfast.backends.redis._async import backend"),
        ("backends/sqlite/rows.py", "from lockfast.backends.sql import rows"),
        ("backends/mysql/_sync/backend.py", "from lockfast.backends.sql.door_rows import x"),
        ("backends/etcd/_async/transport.py", "from lockfast.backends.sessions.line import x"),
        ("backends/waiting/_async/wakeups.py", "from lockfast.backends._async.backend import x"),
        ("urls.py", "import lockfast.backends.redis._async, lockfast.backends.redis._sync"),
        ("__main__.py", "import lockfast.cli"),
    ],
)
def test_the_checker_lets_a_right_import_pass(
    name: str, text: str, complaints: Callable[[str, str], list[str]]
) -> None:
    assert complaints(name, text) == []
