"""Fixtures and settings for all tests; see also `tests/shared`."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator

import other_platforms  # noqa: F401 - first, because it may disguise the platform
import pytest
from hypothesis import HealthCheck, settings
from lengths import IS_LONG
from other_loops import on_the_chosen_loop
from servers.sharing import leave_room
from side_by_side import LongestFirst, a_seat, number_of_workers, take_part
from started_anywhere import as_from_a_terminal, in_a_session_of_its_own

from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.made_once import share_what_is_made

as_from_a_terminal()
in_a_session_of_its_own()
on_the_chosen_loop(os.environ)
for variable in ("LOCKFAST_URL", "LOCKFAST_NAMESPACE"):
    os.environ.pop(variable, None)  # tests must not use a developer's own store
# Drivers read all certificate authorities of the system for each TLS connection, which takes 22 ms
# of processor time, and none of them has signed the tests' certificates.
os.environ["SSL_CERT_FILE"] = os.devnull

# No deadline, since properties are not about speed: a machine that stalls for 0.2 s has falsified
# nothing.
settings.register_profile("lockfast", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lockfast")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return the number of workers that `-n auto` means."""
    return number_of_workers()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log) -> LongestFirst:
    """Return the scheduler that assigns tests to workers."""
    return LongestFirst(config, log)


def pytest_configure(config) -> None:
    """Make the workers share what is expensive to create; the workers inherit this setting."""
    share_what_is_made()
    if not hasattr(config, "workerinput"):
        config.taking_part = take_part()  # registered until the run ends


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[object]:
    """Hide long-lived objects, such as ten thousand tests, from the garbage collector."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config, items) -> None:
    """Deselect the tests that only `make soak` runs."""
    if not IS_LONG:
        left_out = [one for one in items if one.get_closest_marker("soak")]
        items[:] = [one for one in items if not one.get_closest_marker("soak")]
        config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item, nextitem) -> Iterator[None]:
    """Wait for a seat before a test's time starts to count; end servers that are no longer used."""
    with a_seat():
        try:
            return (yield)
        finally:
            if nextitem is not None:
                leave_room(item.nodeid, nextitem.nodeid)


@pytest.fixture(name="eventually")
def _eventually() -> Callable[..., None]:
    """Wait until a condition is true; fail if that takes too long."""
    return eventually
