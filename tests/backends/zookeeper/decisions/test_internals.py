"""The internals of kazoo that we use are listed, and a kazoo without one of them is refused."""

from __future__ import annotations

import ast
import itertools
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import kazoo
import pytest

from lockfast.backends.zookeeper import driver
from lockfast.backends.zookeeper.descriptor import SUPPORTED_KAZOO

ROOT = Path(__file__).parents[4]
STORE = ROOT / "src" / "lockfast" / "backends" / "zookeeper"

NAMES = [f"{owner.__name__}.{name}" for owner, name, _ in driver.INTERNALS]
WITH_FORM = [
    f"{owner.__name__}.{name}" for owner, name, form in driver.INTERNALS if form is not object
]

# Opens the store while one internal after the other is missing or has another form, prints what was
# raised, and then opens it for good. It needs a process that has not imported the store yet.
PROGRAM = """
import json, sys
import kazoo.client, kazoo.protocol.connection, lockfast

def break_method(owner, name, is_missing):
    original = getattr(owner, name)
    if is_missing:
        delattr(owner, name)
    else:
        setattr(owner, name, lambda self, something_new: None)
    return lambda: setattr(owner, name, original)

def break_attribute(owner, name, is_missing):
    original = owner.__init__
    def create(self, *arguments, **options):
        original(self, *arguments, **options)
        if is_missing:
            delattr(self, name)
        else:
            setattr(self, name, object())
    owner.__init__ = create
    return lambda: setattr(owner, "__init__", original)

raised = []
owners = {
    "KazooClient": kazoo.client.KazooClient,
    "ConnectionHandler": kazoo.protocol.connection.ConnectionHandler,
}
for full_name, change in zip(sys.argv[1::2], sys.argv[2::2]):
    owner_name, name = full_name.split(".")
    owner = owners[owner_name]
    break_it = break_method if hasattr(owner, name) else break_attribute
    repair = break_it(owner, name, change == "missing")
    try:
        lockfast.Locks("zookeeper://host").close()
        raised.append("nothing")
    except lockfast.ConfigurationError as error:
        raised.append(str(error))
    repair()
lockfast.Locks("zookeeper://host").close()
print(json.dumps(raised))
"""


CHANGES = [(name, "missing") for name in NAMES] + [(name, "other form") for name in WITH_FORM]


@pytest.fixture(scope="module")
def raised() -> dict[tuple[str, str], str]:
    told = run(PROGRAM, *itertools.chain.from_iterable(CHANGES))
    return dict(zip(CHANGES, json.loads(told), strict=True))


def run(program: str, *arguments: str) -> str:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_the_installed_kazoo_has_what_we_use() -> None:
    assert driver.unknown_internals() == []


@pytest.mark.parametrize("change", CHANGES, ids=" ".join)
def test_a_kazoo_with_other_internals_is_refused_when_it_is_imported(
    raised: dict[tuple[str, str], str], change: tuple[str, str]
) -> None:
    """The error names the installed version, what is missing, and which versions to install."""
    sentence = raised[change]

    assert f"the installed kazoo {kazoo.__version__} lacks or has changed" in sentence
    assert change[0] in sentence
    assert sentence.endswith(SUPPORTED_KAZOO)


def test_a_kazoo_without_a_public_name_is_refused_too() -> None:
    """For example, kazoo 2.10 lacks exceptions that 2.11 has."""
    program = """
import kazoo.exceptions, lockfast
del kazoo.exceptions.ThrottledOpError
try:
    lockfast.Locks("zookeeper://host")
except lockfast.ConfigurationError as error:
    print(error)
"""

    told = run(program)

    assert "ThrottledOpError" in told
    assert told.rstrip().endswith(SUPPORTED_KAZOO)


def test_the_error_names_the_range_of_the_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

    [requirement] = project["optional-dependencies"]["zookeeper"]

    assert f"'{requirement}'" in SUPPORTED_KAZOO


def test_all_internals_that_we_use_are_checked() -> None:
    """Nothing is used without a check, and nothing is checked without a use."""
    used = {name for path in STORE.rglob("*.py") for name in internals_in(path.read_text("utf-8"))}

    assert used == {name for _, name, _ in driver.INTERNALS if name.startswith("_")}


@pytest.mark.parametrize(
    "code",
    [
        "def stop(client): client._live.clear()",
        "class Connection:\n def stop(self): self._client._live.clear()",
        "def stop(client): del client._connection.x, client._live",
        "def stop(client): getattr(client, '_live').clear()",
        "from kazoo.client import _live",
        "class Ours(KazooClient):\n def stop(self): self._live.clear()",
        "class Ours(KazooClient):\n def _live(self): ...",
    ],
)
def test_every_way_to_an_internal_is_found(code: str) -> None:
    assert "_live" in set(internals_in(f"from kazoo.client import KazooClient\n{code}"))


def test_our_own_attributes_are_not_internals() -> None:
    code = """
from kazoo.client import KazooClient
class Ours:
    def _stop(self): self._live = 1; self.__dict__; self._stop()
class Handler(KazooClient):
    def __init__(self): self._mine = 1
    def stop(self): return self._mine
"""
    assert not set(internals_in(code))


def internals_in(code: str) -> Iterator[str]:
    """Yield the underscore names in a module that may be kazoo's.

    These are the underscore attributes of anything but `self`, and in a class derived from one of
    kazoo's also those of `self`, unless that class sets them, and its methods.
    """
    tree = ast.parse(code)
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kazoo"):
            imported |= {one.name for one in node.names}
        elif isinstance(node, ast.Attribute) and not _is_self(node.value):
            yield from filter(_is_private, [node.attr])
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "").endswith("attr"):
            yield from filter(_is_private, (getattr(one, "value", None) for one in node.args))
    yield from filter(_is_private, imported)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and {getattr(b, "id", "") for b in node.bases} & imported:
            yield from _inherited(node)


def _inherited(kind: ast.ClassDef) -> Iterator[str]:
    own = [one for one in ast.walk(kind) if isinstance(one, ast.Attribute) and _is_self(one.value)]
    assigned = {one.attr for one in own if isinstance(one.ctx, ast.Store)}
    yield from (one.attr for one in own if _is_private(one.attr) and one.attr not in assigned)
    methods = (one.name for one in kind.body if isinstance(one, ast.FunctionDef))
    yield from filter(_is_private, methods)


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _is_private(name: object) -> bool:
    return isinstance(name, str) and name.startswith("_") and not name.endswith("__")
