"""An interrupt where etcd alone can be struck; `tests/interrupts` takes every place of a scene."""

from __future__ import annotations

import pytest

from lockfast.backends.sessions.claims import CarriedClaim
from lockfast.challenge.eventually import eventually

LONG = 300
"""What is gone before this ttl is over was not found by a heartbeat that looks for strays."""


@pytest.mark.parametrize("flavour", ["sync"], indirect=True)
def test_between_the_answer_and_what_is_made_of_it(flavour, server, namespace, monkeypatch):
    """The claim holds in the store, and its client does not know yet: it is withdrawn."""
    locks = flavour.locks(server.url, namespace=namespace, ttl=LONG)
    stands_at = CarriedClaim.stands_at

    def struck(one: CarriedClaim, key: str, *, token: int) -> None:
        monkeypatch.setattr(CarriedClaim, "stands_at", stands_at)
        raise KeyboardInterrupt

    monkeypatch.setattr(CarriedClaim, "stands_at", struck)
    with pytest.raises(KeyboardInterrupt):
        locks.lock("door").acquire(timeout=20)

    eventually(lambda: not server.keys(f"{namespace}/n/"), what="nothing is left of it")
