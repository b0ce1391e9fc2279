"""Capacities and permits that are impossible, or that differ from those of other clients."""

from __future__ import annotations

import pytest
from refusal import refusal

from lockfast import ConfigurationError


@pytest.mark.parametrize(
    ("take", "both"),
    [
        (lambda locks: locks.semaphore("held", capacity=3), ("capacity 1", "capacity 3")),
        (lambda locks: locks.rwlock("held").read(), ("capacity 1", "read-write")),
        (lambda locks: locks.rwlock("held").write(), ("capacity 1", "read-write")),
    ],
    ids=["semaphore", "read", "write"],
)
@pytest.mark.parametrize("how", ["acquire", "try_acquire"])
def test_another_capacity_than_the_one_in_use_is_refused_naming_both(store, take, both, how):
    """Law 12: with two capacities for one name, each side would apply its own rule."""
    told = refusal(getattr(take(store.locks), how))

    assert "'held'" in told
    assert all(one in told for one in both)
    assert store.is_unchanged()


def test_two_semaphores_that_differ_are_refused_also_in_the_holders_own_thread(store):
    """A program that disagrees with itself about the capacity is refused too."""
    with store.locks.semaphore("seats", capacity=2):
        told = refusal(lambda: store.locks.semaphore("seats", capacity=3).try_acquire())

    assert "with capacity 2" in told
    assert "with capacity 3" in told


@pytest.mark.parametrize(
    ("arguments", "kind", "sentence"),
    [
        ({"capacity": 0}, ConfigurationError, "capacity=0: 1 to 1000000 is accepted"),
        ({"capacity": -1}, ConfigurationError, "capacity=-1: 1 to 1000000 is accepted"),
        ({"capacity": 10**9}, ConfigurationError, "1 to 1000000 is accepted"),
        ({"capacity": True}, TypeError, "capacity is a whole number, not bool"),
        ({"capacity": 2.0}, TypeError, "capacity is a whole number, not float"),
        ({"capacity": 2, "permits": 3}, ConfigurationError, "permits=3: 1 to 2 is accepted"),
        ({"capacity": 2, "permits": 0}, ConfigurationError, "permits=0: 1 to 2 is accepted"),
    ],
)
def test_a_bad_capacity_or_number_of_permits_is_refused(store, arguments, kind, sentence):
    """More permits than the capacity could never be granted."""
    told = refusal(lambda: store.locks.semaphore("seats", **arguments), kind)

    assert sentence in told
    assert store.is_unchanged()
