"""An interrupt at a point that only etcd has; `tests/interrupts` covers other points."""

from __future__ import annotations

import pytest

from lockfast.backends.sessions.records import SessionClaim
from lockfast_challenge.processes import eventually

LONG = 300
"""A ttl in seconds, so long that no keep-alive checks for strays during the test."""


@pytest.mark.parametrize("flavour", ["sync"], indirect=True)
def test_between_the_answer_and_what_is_made_of_it(flavour, server, namespace, monkeypatch):
    """An interrupt after the grant, but before the client has recorded it, withdraws the claim."""
    locks = flavour.locks(server.url, namespace=namespace, ttl=LONG)
    record_entry = SessionClaim.record_entry

    def struck(one: SessionClaim, key: str, *, token: int) -> None:
        monkeypatch.setattr(SessionClaim, "record_entry", record_entry)
        raise KeyboardInterrupt

    monkeypatch.setattr(SessionClaim, "record_entry", struck)
    with pytest.raises(KeyboardInterrupt):
        locks.lock("door").acquire(timeout=20)

    eventually(lambda: not server.keys(f"{namespace}/n/"), what="nothing is left of it")
