"""`locked` without parentheses, and what a skipped call returns."""

from __future__ import annotations

import asyncio
import functools

import pytest
from refusal import refusal

from lockfast import AsyncLocks, Locks, NotAcquired

WAYS = {"sync": Locks, "asyncio": AsyncLocks}


def name_of(order_id: int) -> str:
    return f"order:{order_id}"


def passing_on(function):
    @functools.wraps(function)
    def passed_on(*args: object, **kwargs: object) -> object:
        return function(*args, **kwargs)

    return passed_on


@pytest.mark.parametrize("flavour", WAYS)
def test_locked_without_its_call_is_refused_when_the_function_is_decorated(flavour):
    """If that were accepted, a call would decorate its argument and never run the body."""
    locks = WAYS[flavour]("memory://")

    def decorate_bare():
        @locks.locked
        def nightly_report() -> str:
            raise AssertionError

    assert refusal(decorate_bare) == (
        "locked needs a name: write @locks.locked('nightly_report'), or a name that the "
        "arguments fill, as in 'order:{order_id}'"
    )


def test_locked_without_its_call_is_found_between_other_decorators():
    locks = Locks("memory://")

    def decorate_bare():
        @passing_on
        @locks.locked
        @passing_on
        def nightly_report(
            day: int = 7,
        ) -> str:
            raise AssertionError(day)

    assert "@locks.locked('nightly_report')" in refusal(decorate_bare)


def test_a_function_that_makes_names_is_no_decoration():
    """The function is refused wherever it was defined: here, in a module, or in a function."""
    locks = Locks("memory://")

    def made_by(prefix: str):
        def name(order_id: int) -> str:
            return f"{prefix}:{order_id}"

        return name

    def here(order_id: int) -> str:
        return f"here:{order_id}"

    ways = [name_of, here, made_by("made"), lambda order_id: f"lambda:{order_id}"]
    for way in ways:

        @locks.locked(way)
        def ship(order_id: int) -> int:
            return order_id

        assert ship(7) == 7

    namespace: dict[str, object] = {"locks": locks}
    exec("def typed(order_id): return f'typed:{order_id}'", namespace)  # noqa: S102 - as a REPL
    exec("ship = locks.locked(typed)", namespace)  # noqa: S102 - as above


@pytest.mark.parametrize("how", ["lock", "locked"])
def test_what_cannot_be_called_is_not_decorated(how):
    locks = Locks("memory://")
    decorate = locks.lock("door") if how == "lock" else locks.locked("door")

    assert refusal(lambda: decorate(7), TypeError) == (
        "a lock decorates a function, and 7 is none; write @locks.locked('name') or "
        "@locks.lock('name') above the function"
    )


def test_a_skip_can_be_told_from_what_the_function_returns():
    store = "memory://told-from-none"
    skipped = object()
    with Locks(store) as locks, Locks(store) as others:

        @locks.locked("hourly", if_held="skip", skipped=skipped)
        def hourly() -> None:
            return None

        assert hourly() is None
        with others.lock("hourly"):
            assert hourly() is skipped


async def _in_asyncio() -> list[object]:
    store = "memory://told-in-asyncio"
    async with AsyncLocks(store) as locks, AsyncLocks(store) as others:

        @locks.locked("hourly", if_held="skip", skipped="skipped")
        async def hourly() -> None:
            return None

        @locks.locked("hourly", if_held="raise")
        async def insistent() -> None:
            return None

        found: list[object] = [await hourly()]
        async with others.lock("hourly"):
            found.append(await hourly())
            with pytest.raises(NotAcquired):
                await insistent()
        return found


def test_a_skip_is_told_in_asyncio_too():
    assert asyncio.run(_in_asyncio()) == [None, "skipped"]


@pytest.mark.parametrize("if_held", ["wait", "raise"])
def test_skipped_goes_with_skip_alone(if_held):
    told = refusal(lambda: Locks("memory://").locked("a", if_held=if_held, skipped=0))

    assert told == "skipped= is what a skipped call returns: it goes with if_held='skip'"
