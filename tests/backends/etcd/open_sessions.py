"""A session of either flavour by blocking calls, and the one that a client has opened."""

from __future__ import annotations

from typing import Any

from both_flavours import Flavour

from lockfast.backends.etcd import addresses
from lockfast.backends.etcd._async.wire import AsyncEtcdWire
from lockfast.backends.etcd._sync.wire import EtcdWire
from lockfast.backends.etcd.orphans import Orphans
from lockfast.backends.sessions.claims import CarriedClaim
from lockfast.model import Claim, Owner

PATIENCE = 20.0


def session_of(locks: Any) -> Any:
    """Return the session that carries the claims of a client."""
    client = getattr(locks, "_inner", locks)._client
    return client.backend._reading.session


class OpenSession:
    """A session whose wire is used directly."""

    def __init__(self, flavour: Flavour, url: str, *, ttl: float = 30.0) -> None:
        self._flavour = flavour
        address = addresses.of_url(url, where=url, namespace="lockfast", options={})
        kind = EtcdWire if flavour.name == "sync" else AsyncEtcdWire
        self.wire = flavour.call(
            kind, address, Orphans(), ttl=ttl, clock=flavour.clock, changed=lambda: None
        )
        self.ask("open")

    def ask(self, verb: str, *arguments: Any, **options: Any) -> Any:
        """Return what the wire answers."""
        deadline = self._flavour.clock.now() + PATIENCE
        return self._flavour.call(
            getattr(self.wire, verb), *arguments, **options, deadline=deadline
        )

    def arrive(self, name: str, **fields: Any) -> CarriedClaim:
        """Return a claim that has come into line."""
        owner = Owner(host="h", pid=1).to_text()
        values = {"client": "c", "owner": owner, "weight": 1, "capacity": 1, "ttl": self.wire.ttl}
        one = CarriedClaim(Claim(id="1" * 32, name=name, **{**values, **fields}))
        self.ask("arrive", one)
        return one

    def close(self) -> None:
        self.ask("close", goodbye=True)
