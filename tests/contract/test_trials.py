"""A law is tried again only if the store, or the machine, was too slow meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from contract.broken import Whole

from lockfast.backends.memory._async.backend import AsyncMemoryBackend
from lockfast.testing import VirtualClock, run_in_virtual_time
from lockfast.testing._async.contract.subject import TRIALS

TTL = 3.0


class Slow(Whole):
    """A store that takes `pause` seconds to inspect a name, and `write_pause` to renew."""

    pause = 0.0
    write_pause = 0.0

    class backend_class(AsyncMemoryBackend):  # noqa: N801 - an attribute of the subject
        async def inspect(self, name: str, *, deadline: float) -> Any:
            await asyncio.sleep(Slow.pause)
            return await super().inspect(name, deadline=deadline)

        async def renew(self, grants: Any, *, deadline: float) -> Any:
            await asyncio.sleep(Slow.write_pause)
            return await super().renew(grants, deadline=deadline)


def tried(
    monkeypatch, *, pause: float = 0.0, write_pause: float = 0.0, fails: int
) -> list[tuple[str, float]]:
    """Return the names and ttls with which a trial is tried, if it fails this many times first."""
    found: list[tuple[str, float]] = []

    async def trial(name: str, ttl: float) -> None:
        found.append((name, ttl))
        await asyncio.sleep(100.0)
        assert len(found) > fails

    async def scenario() -> None:
        subject = Slow()
        subject.clock = VirtualClock(asyncio.get_running_loop())  # type: ignore[arg-type]
        subject.set_up()
        subject._to_close = []
        await subject.undisturbed(trial, ttl=TTL)

    monkeypatch.setattr(Slow, "pause", pause)
    monkeypatch.setattr(Slow, "write_pause", write_pause)
    try:
        run_in_virtual_time(scenario())
    except AssertionError:
        found.append(("failed", 0.0))
    return found


def test_what_fails_while_the_store_answers_fails_at_once(monkeypatch):
    assert tried(monkeypatch, pause=0.4, fails=1) == [("door 0", TTL), ("failed", 0.0)]


def test_what_fails_while_nothing_was_answered_is_tried_with_another_name_and_twice_the_ttl(
    monkeypatch,
):
    assert tried(monkeypatch, pause=0.6, fails=1) == [("door 0", TTL), ("door 1", 2 * TTL)]


def test_a_store_that_reads_quickly_and_writes_slowly_is_slow(monkeypatch):
    """Such a store is like a database with a stalled disk, which can still read from memory."""
    slow = tried(monkeypatch, write_pause=0.6, fails=1)

    assert slow == [("door 0", TTL), ("door 1", 2 * TTL)]


def test_what_passes_passes_however_slow_the_store_is(monkeypatch):
    assert tried(monkeypatch, pause=0.6, fails=0) == [("door 0", TTL)]


def test_what_fails_again_and_again_fails_in_the_end(monkeypatch):
    """The failure counts once the ttl is long enough for the store, or after the last trial."""
    assert tried(monkeypatch, pause=0.6, fails=99)[2:] == [("failed", 0.0)]
    assert len(tried(monkeypatch, pause=900.0, fails=99)) == TRIALS + 1


@pytest.mark.parametrize("error", [pytest.fail.Exception, LookupError])
def test_whatever_a_trial_raises_is_its_failure(error):
    """The exception that pytest.raises raises when nothing was raised counts too."""

    async def trial(_name: str, _ttl: float) -> None:
        raise error("it failed")

    class Subject(Whole):
        async def test_law_01_it_fails(self) -> None:
            await self.undisturbed(trial, ttl=TTL)

    with pytest.raises(error, match="it failed"):
        Subject().test_law_01_it_fails()
