"""A holder whose process is killed: nobody is notified, so its ttl has to run out."""

from __future__ import annotations

TTL = 0.8
SLACK = 0.5
"""Allowed delay on a busy machine, in seconds."""


def test_a_killed_holder_frees_the_name_within_its_ttl(flavour, server, puppet, line, eventually):
    """Law 9: the next claim in line is granted when the ttl is over, with a larger token."""
    holder = puppet(flavour.name, server.url, ttl=TTL)
    token = holder.ask("acquire", "door")
    waiter = flavour.start(flavour.locks(server.url).lock("door").acquire, timeout=20)
    eventually(lambda: line("door") == ([token], 1))
    renewals = holder.ask("renewals")
    eventually(lambda: holder.ask("renewals") > renewals)  # until it is killed, it renews

    holder.kill()
    killed_at = flavour.clock.now()
    successor = waiter.result(20)
    waited = flavour.clock.now() - killed_at

    assert waited < TTL + SLACK
    assert successor.token > token
    assert line("door") == ([successor.token], 0)
