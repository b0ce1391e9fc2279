"""Every argument is described where an editor shows it: at its definition and at a call."""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise

import pytest

from lockfast import AsyncLocks, Locks, options
from lockfast.options import AdoptKeywords, LockKeywords

FLAVOURS = {"sync": Locks, "asyncio": AsyncLocks}
METHODS = ("lock", "rwlock", "semaphore", "all", "striped", "sharded", "locked")


def arguments_of(function) -> list[str]:
    return [one for one in inspect.signature(function).parameters if one != "self"]


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_every_argument_of_a_client_is_described(flavour):
    client = FLAVOURS[flavour]

    for argument in arguments_of(client):
        assert f"- `{argument}`: " in inspect.getdoc(client)


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("method", METHODS)
def test_every_argument_of_what_makes_a_lock_is_described(flavour, method):
    function = getattr(FLAVOURS[flavour], method)
    names = arguments_of(function)
    if method == "lock":
        names[names.index("options") :] = list(LockKeywords.__annotations__)

    for name in names:
        assert f"- `{name}`: " in inspect.getdoc(function)


@pytest.mark.parametrize("keywords", [LockKeywords, AdoptKeywords])
def test_every_keyword_is_described_where_an_editor_looks(keywords):
    """The description follows the field, where an editor looks for the text of a hover."""
    tree = ast.parse(inspect.getsource(options))
    [body] = [one.body for one in tree.body if getattr(one, "name", "") == keywords.__name__]
    described = [
        field.target.id
        for field, below in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr)
    ]

    assert described == list(keywords.__annotations__)
