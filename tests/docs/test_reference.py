"""The reference is complete."""

from __future__ import annotations

import dataclasses
import inspect

import pytest
from doc_pages import ROOT

import lockfast
import lockfast.fencing
from lockfast.options import LockOptions

API = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
TWINS = {name for name in lockfast.__all__ if f"Async{name}" in lockfast.__all__}


@pytest.mark.parametrize("name", lockfast.__all__)
def test_every_public_name_is_on_the_page(name):
    base = name.removeprefix("Async")
    assert f"`{base if base in TWINS else name}" in API


@pytest.mark.parametrize("name", [one.name for one in dataclasses.fields(LockOptions)])
def test_every_option_of_a_lock_is_on_the_page(name):
    assert f"| `{name}` |" in API


@pytest.mark.parametrize("cls", [lockfast.Locks, lockfast.Lock, lockfast.Lease])
def test_every_public_method_is_on_the_page(cls):
    internal = {"capacity", "enter_block", "forget", "granted", "keep", "options", "weight"}
    internal |= {
        "beyond_its_block",
        "give_up",
        "reentered",
        "leave_to_ttl",
        "timed_out",
        "entered_by",
    }
    methods = {name for name, _ in inspect.getmembers(cls) if not name.startswith("_")} - internal

    assert {name for name in methods if f"`{name}" not in API and f".{name}(" not in API} == set()


def test_the_signature_of_the_client_is_as_on_the_page():
    shown = API.partition("`Locks(")[2].partition(")`")[0].split(", ")
    names = [one.partition("=")[0].lstrip("*") for one in shown if one != "*"]

    assert names == [*inspect.signature(lockfast.Locks).parameters]


@pytest.mark.parametrize("name", lockfast.fencing.__all__)
def test_every_name_of_the_guards_is_on_the_page(name):
    assert f"`{name}" in API
