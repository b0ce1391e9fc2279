"""Sessions for tests: a new session with blocking calls, or the session that a client opened."""

from __future__ import annotations

from typing import Any

from both_flavours import Flavour

from lockfast.backends.etcd import address as etcd_address
from lockfast.backends.etcd._async.transport import AsyncEtcdTransport
from lockfast.backends.etcd._sync.transport import EtcdTransport
from lockfast.backends.etcd.line import Orphans
from lockfast.backends.sessions.records import SessionClaim
from lockfast.model import Claim, Owner

PATIENCE = 20.0


def session_of(locks: Any) -> Any:
    """Return the session that carries the claims of a client."""
    client = getattr(locks, "_inner", locks)._client
    return client.backend._reading.session


class OpenSession:
    """A session whose transport is used directly."""

    def __init__(self, flavour: Flavour, url: str, *, ttl: float = 30.0) -> None:
        self._flavour = flavour
        address = etcd_address.of_url(url, where=url, namespace="lockfast", options={})
        kind = EtcdTransport if flavour.name == "sync" else AsyncEtcdTransport
        self.transport = flavour.call(
            kind, address, Orphans(), ttl=ttl, clock=flavour.clock, changed=lambda: None
        )
        self.ttl = self.ask("open").granted

    def ask(self, verb: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of the transport, and return its result."""
        return self._call(self.transport, verb, *arguments, **options)

    def ask_lines(self, verb: str, *arguments: Any) -> Any:
        """Call a method of the transport's lines, and return its result."""
        return self._call(self.transport.lines, verb, *arguments)

    def _call(self, one: Any, verb: str, *arguments: Any, **options: Any) -> Any:
        deadline = self._flavour.clock.now() + PATIENCE
        return self._flavour.call(getattr(one, verb), *arguments, **options, deadline=deadline)

    def arrive(self, name: str, **fields: Any) -> SessionClaim:
        """Return a claim that has joined the line."""
        owner = Owner(host="h", pid=1).to_text()
        values = {"client": "c", "owner": owner, "weight": 1, "capacity": 1, "ttl": self.ttl}
        one = SessionClaim(Claim(id="1" * 32, name=name, **{**values, **fields}))
        self.ask_lines("arrive", one)
        return one

    def close(self) -> None:
        self.ask("close", goodbye=True)
