"""Both files of a hand-written pair offer the same names, as decision 0003 requires.

What a pair offers is listed in its `__all__`, or else is every top-level name without an
underscore; for each class among these, also its methods and attributes without an underscore.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "lockfast"

# Legitimate differences: the room, the name (a class stands for everything in it), the reason.
DIFFERENCES = {
    "runtime": {
        "WakeEvent.wake_to_check": "a waiting thread may have to read for others; a loop reads",
    },
    "testing": {
        "Running.cancel": "only a task can be cancelled from outside",
    },
    "backends/etcd/connection": {
        "EtcdConnection": "one is driven by the loop, the other by the thread that asks; only "
        "what is written for one flavour takes it in its hands",
    },
    "backends/memcached/connection": {
        "MemcachedConnection": "one is driven by the loop, the other by the thread that asks",
    },
    "backends/postgresql/connection": {
        "PostgresqlConnection.fileno": "a thread polls it together with what may wake it; a loop "
        "reads by itself",
    },
    "backends/redis/connection": {
        "RedisConnection": "one is driven by the loop, the other by the thread that asks; only "
        "what is written for one flavour takes it in its hands",
        "RedisSubscription.shut": "it has a connection of its own, which another thread may end",
        "ClusterSubscription.shut": "as above",
    },
    "backends/waiting/listener": {
        "GUEST_LEAVES_WITHIN_SECONDS": "threads take turns at reading; a loop reads by itself",
        "Readable": "as above",
        "SelfPipe": "interrupts a thread that polls; a loop needs none",
    },
    "backends/redlock/nodes": {
        "NodeTransport": "one has a connection for all tasks, the other some for threads to take; "
        "only Nodes takes them in its hands",
    },
    "backends/network/connection": {
        "SocketConnection": "one is driven by the loop, the other by the thread that asks",
        "BufferedConnection": "asyncio would allocate a large buffer for each receive",
    },
}


def differences(package: Path, declared: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return what is wrong with the pairs below `package`."""
    pairs = sorted(
        {
            path.parent / path.name.removesuffix(f"{flavour}.py")
            for flavour in ("aio", "threads")
            for pattern in (f"{flavour}.py", f"*_{flavour}.py")
            for path in package.rglob(pattern)
        }
    )
    names = {pair: pair.relative_to(package).as_posix().rstrip("_") for pair in pairs}
    return [
        f"{name}: {fault}"
        for pair, name in names.items()
        for fault in faults(pair, declared.get(name, {}))
    ]


def faults(pair: Path, declared: Mapping[str, str]) -> Iterator[str]:
    """Yield what one file of a pair offers and the other does not.

    A pair is `aio.py` and `threads.py` in a folder, or `x_aio.py` and `x_threads.py`.
    """
    stem = f"{pair}" if pair.name.endswith("_") else f"{pair}/"
    files = [Path(f"{stem}{flavour}.py") for flavour in ("aio", "threads")]
    missing = [path.name for path in files if not path.exists()]
    if missing:
        yield f"{missing[0]} is missing"
        return
    offers = [set(offered(path)) for path in files]
    known = {name for name in set.union(*offers) for one in declared if is_part(name, of=one)}
    for path, here, there in zip(files, offers, reversed(offers), strict=True):
        yield from (f"only {path.name} offers {name}" for name in sorted(here - there - known))
    for one in declared:
        if not any(is_part(name, of=one) for name in offers[0] ^ offers[1]):
            yield f"{one} is declared to differ, and does not"


def is_part(name: str, *, of: str) -> bool:
    """Return whether a dotted name is `of` itself, or a name inside it."""
    return name == of or name.startswith(f"{of}.")


def offered(path: Path) -> Iterator[str]:
    """Yield the public names of a module, and the members of its classes as `Class.member`."""
    body = ast.parse(path.read_text(encoding="utf-8"), filename=str(path)).body
    defined = {name: node for node in body for name in names_of(node)}
    exported = defined.get("__all__")
    names = (
        ast.literal_eval(exported.value)
        if isinstance(exported, ast.Assign)
        else [
            name for name, node in defined.items() if is_public(name) and not is_type_variable(node)
        ]
    )
    for name in names:
        yield name
        node = defined.get(name)
        if isinstance(node, ast.ClassDef):
            yield from (f"{name}.{one}" for one in members(node, body))


def members(node: ast.ClassDef, body: list[ast.stmt]) -> set[str]:
    """Return the public names in a class, including those inherited from modules that pairs share.

    A shared base class may offer a name to both halves, or to one only.
    """
    found = {one for part in node.body for one in names_of(part) if is_public(one)}
    parents = {ast.unparse(one).partition("[")[0] for one in node.bases}
    for one in body:
        if isinstance(one, ast.ClassDef) and one.name in parents:
            found |= members(one, body)
        if not isinstance(one, ast.ImportFrom) or not is_stood_on(one.module):
            continue
        module = PACKAGE.joinpath(*str(one.module).split(".")[1:]).with_suffix(".py")
        inside = ast.parse(module.read_text(encoding="utf-8"), filename=str(module)).body
        for parent in inside:
            if isinstance(parent, ast.ClassDef) and parent.name in parents:
                found |= members(parent, inside)
    return found


def is_stood_on(module: str | None) -> bool:
    """Return whether a module is in the runtime, or is shared by several stores."""
    return (module or "").startswith(
        ("lockfast.runtime.", "lockfast.backends.network.", "lockfast.backends.waiting.")
    )


def names_of(node: ast.stmt) -> list[str]:
    """Return the names that a statement defines; an import does not count."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [one.id for one in targets if isinstance(one, ast.Name)]


def is_public(name: str) -> bool:
    """Return whether other modules may use the name."""
    return not name.startswith("_")


def is_type_variable(node: ast.stmt) -> bool:
    """Return whether the statement only defines a type variable, which no other module imports."""
    value = getattr(node, "value", None)
    return isinstance(value, ast.Call) and ast.unparse(value.func) in {"TypeVar", "ParamSpec"}


def strangers(package: Path) -> list[str]:
    """Return the names of a pair that are used although its `__all__` does not list them.

    Without this check, a name could be in use but missing from one of the halves, and no test would
    fail.
    """
    halves = (path for path in package.rglob("*.py") if is_half(path.stem))
    offers = {path: set(offered(path)) for path in halves}
    return [
        f"{path.relative_to(package).as_posix()} uses {name} of "
        f"{pair.relative_to(package).as_posix()}, whose __all__ does not name it"
        for path in sorted(package.rglob("*.py"))
        for pair, name in uses(path, package)
        if is_public(name) and name not in offers[pair]
    ]


def is_half(module: str) -> bool:
    """Return whether a module of this name is one half of a pair."""
    return module in {"aio", "threads"} or module.endswith(("_aio", "_threads"))


def uses(path: Path, package: Path) -> Iterator[tuple[Path, str]]:
    """Yield each name that a file uses from one half of a pair, with that half."""
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    modules: dict[str, Path] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("lockfast."):
            continue
        place = package.joinpath(*(node.module or "").split(".")[1:])
        for alias in node.names:
            if is_half(place.name):
                yield place.with_suffix(".py"), alias.name
            elif is_half(alias.name):
                modules[alias.asname or alias.name] = place / f"{alias.name}.py"
    for node in ast.walk(tree):
        owner = node.value if isinstance(node, ast.Attribute) else None
        if isinstance(owner, ast.Name) and owner.id in modules:
            yield modules[owner.id], node.attr


def test_hand_written_pairs_offer_the_same_names() -> None:
    assert (PACKAGE / "runtime" / "aio.py").exists()
    assert differences(PACKAGE, DIFFERENCES) == []


def test_only_what_a_pair_offers_is_used() -> None:
    assert strangers(PACKAGE) == []


def test_every_declared_difference_is_of_a_pair_that_exists() -> None:
    there = {pair for pair in DIFFERENCES for end in ("/", "_") if halves_of(pair, end)}

    assert there == set(DIFFERENCES)


def halves_of(pair: str, end: str) -> bool:
    """Return whether the pair has an asyncio half with this `end`: `x/aio.py` or `x_aio.py`."""
    return (PACKAGE / f"{pair}{end}aio.py").exists()


# Tests of the checker itself.

FINE = """
import json
from typing import TypeVar
T = TypeVar("T")
FLAVOUR: str = "x"
_private = 1
def wait(): ...
class Wire:
    is_open = True
    def __init__(self): ...
    def send(self): ...
    def _pass_on(self): ...
"""


@pytest.fixture
def pair(tmp_path: Path) -> Callable[..., list[str]]:
    """Return what the checker reports for a pair whose asyncio half is correct."""
    room = tmp_path / "runtime"
    room.mkdir()
    (room / "aio.py").write_text(FINE)

    def check(threads: str | None, **declared: str) -> list[str]:
        if threads is not None:
            (room / "threads.py").write_text(threads)
        return differences(tmp_path, {"runtime": declared})

    return check


def test_the_checker_lets_a_right_pair_pass(pair: Callable[..., list[str]]) -> None:
    other = FINE.replace("import json", "import time").replace("T = TypeVar", "F = TypeVar")

    assert pair(other.replace("_private", "_own").replace("_pass_on", "_keep")) == []
    assert pair(f"{FINE}\nhelper = 1\n__all__ = ['FLAVOUR', 'Wire', 'wait']") == []


@pytest.mark.parametrize(
    ("old", "new", "complaints"),
    [
        ("def wait(): ...", "", ["only aio.py offers wait"]),
        ("def wait(): ...", "def _wait(): ...", ["only aio.py offers wait"]),
        (
            "FLAVOUR: str",
            "FLAVOR: str",
            ["only aio.py offers FLAVOUR", "only threads.py offers FLAVOR"],
        ),
        ("    def send(self): ...", "", ["only aio.py offers Wire.send"]),
        ("is_open = True", "is_open = is_shut = True", ["only threads.py offers Wire.is_shut"]),
        ("import json", "__all__ = ['FLAVOUR', 'Wire']", ["only aio.py offers wait"]),
        (
            "import json",
            "from x import spawn\n__all__ = ['FLAVOUR', 'Wire', 'spawn', 'wait']",
            ["only threads.py offers spawn"],
        ),
    ],
)
def test_the_checker_catches_a_pair_that_has_drifted(
    old: str, new: str, complaints: list[str], pair: Callable[..., list[str]]
) -> None:
    assert pair(FINE.replace(old, new)) == [f"runtime: {one}" for one in complaints]


def test_the_checker_knows_what_is_declared_and_no_more(pair: Callable[..., list[str]]) -> None:
    drifted = FINE.replace("def send", "def receive").replace("def wait", "def sleep")

    assert pair(drifted, Wire="why", sleep="why") == ["runtime: only aio.py offers wait"]
    assert pair(FINE, Wire="why") == ["runtime: Wire is declared to differ, and does not"]


def test_the_checker_catches_half_a_pair(pair: Callable[..., list[str]]) -> None:
    assert pair(None) == ["runtime: threads.py is missing"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("from lockfast.runtime.aio import Pending", "Pending"),
        ("from lockfast.runtime import aio as runtime\nruntime.Pending()", "Pending"),
        ("from lockfast.runtime.aio import Wire", None),
        ("from lockfast.runtime import aio\naio.Wire(aio.wait)", None),
    ],
)
def test_the_checker_catches_the_use_of_what_is_not_offered(
    text: str, name: str | None, tmp_path: Path, pair: Callable[..., list[str]]
) -> None:
    (tmp_path / "runtime/aio.py").write_text(f"{FINE}\nPending = 1\n__all__ = ['Wire', 'wait']")
    (tmp_path / "lock.py").write_text(text)

    complaint = f"lock.py uses {name} of runtime/aio.py, whose __all__ does not name it"
    assert strangers(tmp_path) == ([complaint] if name else [])
