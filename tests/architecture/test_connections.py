"""Sockets are made in one room, and the stores that we speak to ourselves need no driver."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

BACKENDS = Path(__file__).parents[2] / "src" / "lockfast" / "backends"

OPENING = {
    "create_connection",
    "create_datagram_endpoint",
    "create_unix_connection",
    "open_connection",
    "open_unix_connection",
    "socket.socket",
    "socketpair",
}
"""What makes a socket, as a call or as the class that another one inherits from."""

OPENED_ELSEWHERE = {
    ("sqlite/doorbell.py", "socket.socket"): "datagrams between processes of one machine",
    ("waiting/listener_threads.py", "socketpair"): "the self-pipe: no connection to a server",
    ("zookeeper/driver.py", "create_connection"): "kazoo asks its handler for connections",
    ("zookeeper/four_letter_words.py", "create_connection"): "for the doctor: one word, one answer",
}
"""The sockets that are made outside `network/`, and why. This table may only become shorter."""

WITHOUT_DRIVER = ("network", "redis", "redlock")

READ_BY_SHAPE = {
    ("redis/address.py", "_force_master_ip"): "a Sentinel client's setting has no public name",
}
"""Private names of other libraries, and why. This table may only become shorter."""

OF_NAMED_TUPLES = {"_asdict", "_fields", "_make", "_replace"}
"""Public names, although they begin with an underscore."""


def opened_in(tree: ast.AST) -> Iterator[str]:
    """Yield everything in a module that makes a socket."""
    for node in ast.walk(tree):
        used = [node.func] if isinstance(node, ast.Call) else []
        used += node.bases if isinstance(node, ast.ClassDef) else []
        for one in used:
            name = ast.unparse(one)
            # Calls of `socket.socket` are told from those of any other method named `socket`.
            yield from {name, name.rpartition(".")[2]} & OPENING


def modules_in(tree: ast.AST) -> Iterator[str]:
    """Yield the first part of the name of every module that is imported, anywhere in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name.partition(".")[0] for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "lockfast" if node.level else str(node.module).partition(".")[0]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield ast.unparse(node.args[0])


def private_names_in(tree: ast.Module) -> Iterator[str]:
    """Yield every private name that is used of an object other than `self`, `cls` or `super()`.

    Names in strings count, because `getattr` takes them, except our own in `__slots__` and of
    `self`.
    """
    own = {id(inner) for node in ast.walk(tree) for inner in (*_slots(node), *_of_self(node))}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_private(node.attr):
            if ast.unparse(node.value) not in {"self", "cls", "super()"}:
                yield node.attr
        elif (
            isinstance(node, ast.Constant)
            and id(node) not in own
            and _is_private(str(node.value))
            and str(node.value).isidentifier()
        ):
            yield str(node.value)


def _slots(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__slots__":
        yield from ast.walk(node.value)


def _of_self(node: ast.AST) -> list[ast.expr]:
    is_getattr = isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr"
    return node.args if is_getattr and ast.unparse(node.args[0]) == "self" else []


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in OF_NAMED_TUPLES


def trees(*rooms: str) -> Iterator[tuple[str, ast.Module]]:
    """Yield each module of these rooms of the backends, by its path; of all rooms if none."""
    for path in sorted(BACKENDS.rglob("*.py")):
        inside = path.relative_to(BACKENDS)
        if not rooms or inside.parts[0] in rooms:
            yield inside.as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def test_sockets_are_made_in_one_room() -> None:
    """Deadlines, TLS and the addresses of a host are looked after there, once for all stores."""
    found = Counter(
        (path, opening)
        for path, tree in trees()
        if not path.startswith("network/")
        for opening in opened_in(tree)
    )

    assert found == Counter(OPENED_ELSEWHERE.keys())


def test_what_we_speak_ourselves_needs_no_driver() -> None:
    """`pip install lockfast` alone is enough for Redis and Redlock."""
    foreign = {
        (path, module)
        for path, tree in trees(*WITHOUT_DRIVER)
        for module in modules_in(tree)
        if module != "lockfast" and module not in sys.stdlib_module_names
    }

    assert foreign == set()


def test_no_private_name_of_another_library_is_used() -> None:
    """A private name may change its meaning in any release of its library."""
    found = {
        (path, name) for path, tree in trees(*WITHOUT_DRIVER) for name in private_names_in(tree)
    }

    assert found == READ_BY_SHAPE.keys()


# Tests of the checkers themselves.


@pytest.mark.parametrize(
    "code",
    [
        "socket.create_connection(address)",
        "await loop.create_connection(made)",
        "await asyncio.open_connection(host)",
        "sock = socket.socket(family)",
        "class Bell(socket.socket): pass",
    ],
)
def test_a_socket_is_found(code: str) -> None:
    module = ast.parse(f"async def f():\n {code}")

    assert len(list(opened_in(module))) == 1


@pytest.mark.parametrize("code", ["def f(sock: socket.socket): pass", "client.socket()"])
def test_what_makes_none_is_not_found(code: str) -> None:
    assert list(opened_in(ast.parse(code))) == []


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("client.connection_pool._lock", ["_lock"]),
        ("getattr(client, '_lock', None)", ["_lock"]),
        ("self._client._lock", ["_lock"]),
        ("self._lock", []),
        ("getattr(self, '_lock', None)", []),
        ("super()._lock", []),
        ("one._replace(a=1)", []),
        ("__slots__ = ('_lock',)", []),
        ("one.__class__", []),
    ],
)
def test_a_private_name_is_found(code: str, found: list[str]) -> None:
    assert list(private_names_in(ast.parse(code))) == found


@pytest.mark.parametrize(
    "code",
    ["import redis", "def f():\n from redis.asyncio import Redis", "import redis.client as r"],
)
def test_a_driver_is_found(code: str) -> None:
    assert list(modules_in(ast.parse(code))) == ["redis"]
