"""What the tests of all rooms share; see `tests/shared`."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator

import other_platforms  # noqa: F401 - first: it may be told where Lockfast is to believe to run
import pytest
from hypothesis import HealthCheck, settings
from other_loops import on_the_chosen_loop
from servers.sharing import leave_room
from side_by_side import LongestFirst, a_seat, number_of_workers, take_part
from started_anywhere import as_from_a_terminal, in_a_session_of_its_own

from lockfast.challenge.eventually import eventually
from lockfast.challenge.servers.made_once import share_what_is_made

as_from_a_terminal()
in_a_session_of_its_own()
on_the_chosen_loop(os.environ)
for variable in ("LOCKFAST_URL", "LOCKFAST_NAMESPACE"):
    os.environ.pop(variable, None)  # a developer's own store is no test's
# Drivers read all authorities of the system for each connection by TLS, which takes 22 ms of
# computing, and what the tests show is signed by none of them.
os.environ["SSL_CERT_FILE"] = os.devnull

# Properties, not speed: a machine that stands still for 0.2 s has falsified nothing.
settings.register_profile("lockfast", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lockfast")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Say how many workers `-n auto` means."""
    return number_of_workers()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log) -> LongestFirst:
    """Say who runs which tests."""
    return LongestFirst(config, log)


def pytest_configure(config) -> None:
    """Let the workers make together what is dear: they inherit what is said here."""
    share_what_is_made()
    if not hasattr(config, "workerinput"):
        config.taking_part = take_part()  # for as long as the run goes on


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[object]:
    """Keep the garbage collector from what stays to the end: ten thousand tests, and the tools."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item, nextitem) -> Iterator[None]:
    """Wait for a seat before anything of a test is timed; leave no server to run for nobody."""
    with a_seat():
        try:
            return (yield)
        finally:
            if nextitem is not None:
                leave_room(item.nodeid, nextitem.nodeid)


@pytest.fixture(name="eventually")
def _eventually() -> Callable[..., None]:
    """Wait until something has happened; fail if it never does."""
    return eventually
