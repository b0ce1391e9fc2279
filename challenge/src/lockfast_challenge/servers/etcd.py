"""Real etcd servers: a single one, a cluster, and a partitionable cluster."""

from __future__ import annotations

import base64
import json
import os
import re
import ssl
import urllib.error
import urllib.request
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.proxy import Message, Proxy
from lockfast_challenge.servers.server import Server, Three, free_ports

if TYPE_CHECKING:
    from lockfast_challenge.servers.certificates import Certificates
    from lockfast_challenge.servers.proxy import Connection


ELECTION_SECONDS = 0.5
"""How long the members of a cluster wait for their leader before they elect another, in seconds.

etcd's default is twice as long, and with it no lease could be shorter than two seconds.
"""

until: partial[None] = partial(eventually, despite=(OSError,))
"""Wait until the condition is true; a request that fails counts as not yet true."""

QUICK_ELECTIONS = ("--heartbeat-interval", "20", "--election-timeout", "200")
"""Options for a single server, which wins every election.

With these options the server serves sooner, and grants leases of one second.
"""


CLUSTER_ELECTIONS = (
    *("--heartbeat-interval", f"{ELECTION_SECONDS * 100:.0f}"),
    *("--election-timeout", f"{ELECTION_SECONDS * 1000:.0f}"),
)


class EtcdServer(Server):
    """One `etcd` server; its data outlive the process.

    With certificates the server accepts only TLS, and requires a client certificate if `asks` is
    true.
    """

    kind = "etcd"
    port: int
    peer_port: int
    health_port: int
    packages: ClassVar[dict[str, str]] = {"etcd": "etcd-server"}

    def __init__(
        self, *options: str, tls: Certificates | None = None, asks: bool = True, name: str = "n0"
    ) -> None:
        super().__init__()
        self.options = options
        self.tls = tls
        self.asks = asks
        self.name = name
        self.login: dict[str, str] = {}
        self.cluster = ""
        """All members with their peer URLs, as `--initial-cluster` takes them.

        Empty for a single server.
        """

    def choose_ports(self) -> None:
        """Choose the ports for clients, for other members and for health checks."""
        self.port, self.peer_port, self.health_port = free_ports(3)

    @property
    def scheme(self) -> str:
        """The scheme of the server's URLs for etcd's own clients."""
        return "http" if self.tls is None else "https"

    @property
    def url(self) -> str:
        """The server's URL, without a password."""
        return f"{'etcd' if self.tls is None else 'etcds'}://{self.address}"

    @property
    def client_options(self) -> dict[str, str]:
        """Further options that a Lockfast client needs."""
        return {**({} if self.tls is None else self.tls.client_options()), **self.login}

    def command(self) -> list[str]:
        """Return the command line."""
        client, peer = f"{self.scheme}://{self.address}", f"http://127.0.0.1:{self.peer_port}"
        cluster = self.cluster or f"{self.name}={peer}"
        [advertised] = [one for one in cluster.split(",") if one.startswith(f"{self.name}=")]
        return [
            *("etcd", "--name", self.name, "--data-dir", str(self.data)),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer),
            *("--initial-advertise-peer-urls", advertised.partition("=")[2]),
            *("--initial-cluster", cluster, "--initial-cluster-token", self.directory.parent.name),
            *("--listen-metrics-urls", f"http://127.0.0.1:{self.health_port}"),
            # Neither the disk nor the strength of passwords is under test.
            *("--unsafe-no-fsync", "--bcrypt-cost", "4"),
            *("--logger", "zap", "--log-level", "error"),
            *(CLUSTER_ELECTIONS if self.cluster else QUICK_ELECTIONS),
            *self._security(),
            *self.options,
        ]

    def _security(self) -> list[str]:
        if self.tls is None:
            return []
        files = ["--cert-file", self.tls.certificate, "--key-file", self.tls.key]
        return [
            *files,
            "--trusted-ca-file",
            self.tls.authority,
            *["--client-cert-auth"][: self.asks],
        ]

    def serves(self) -> bool:
        """Whether the server reports that it is healthy; a server without a leader is not."""
        try:
            return bool(json.loads(self._fetch_page("health"))["health"] == "true")
        except (OSError, ValueError):
            return False

    def figure(self, name: str) -> int:
        """Return one of the server's counters, such as etcd_server_slow_apply_total."""
        for line in self._fetch_page("metrics").splitlines():
            key, _, value = line.partition(" ")
            if key == name:
                return int(float(value))
        raise KeyError(name)

    def _fetch_page(self, page: str) -> str:
        where = f"http://127.0.0.1:{self.health_port}/{page}"
        with urllib.request.urlopen(where, timeout=2) as answer:
            return bytes(answer.read()).decode()

    def ask(self, path: str, within: float = 10.0, **body: Any) -> dict[str, Any]:
        """Return the reply of the server's JSON gateway to a path such as `kv/range`, or raise."""
        request = urllib.request.Request(  # noqa: S310 - the scheme is our own
            f"{self.scheme}://{self.address}/v3/{path}", json.dumps(body).encode()
        )
        if self.login and path != "auth/authenticate":
            login = {"name": self.login["username"], "password": self.login["password"]}
            token = self.ask("auth/authenticate", 10.0, **login)["token"]
            request.add_header("Authorization", token)
        with urllib.request.urlopen(request, timeout=within, context=self._context()) as answer:  # noqa: S310
            found: dict[str, Any] = json.load(answer)
            return found

    def _context(self) -> ssl.SSLContext | None:
        if self.tls is None:
            return None
        context = ssl.create_default_context(cafile=self.tls.authority)
        context.load_cert_chain(self.tls.certificate, self.tls.key)
        return context

    def keys(self, prefix: str = "", **options: Any) -> dict[bytes, bytes]:
        """Return the keys with this prefix, and their values."""
        found = self.ask("kv/range", **_range(prefix), **options)
        return {
            base64.b64decode(one["key"]): base64.b64decode(one.get("value", ""))
            for one in found.get("kvs", [])
        }

    def put(self, key: str, value: str = "") -> None:
        """Store a value."""
        self.ask("kv/put", key=_coded(key.encode()), value=_coded(value.encode()))

    def delete(self, key: bytes) -> None:
        """Delete a key."""
        self.ask("kv/deleterange", key=_coded(key))

    def fill(self) -> None:
        """Put keys until the server accepts no more; the server must have a small quota."""
        with suppress(urllib.error.HTTPError):
            while True:
                self.put(f"fill/{os.urandom(8).hex()}", "x" * 50_000)

    def state(self) -> dict[str, Any]:
        """Return the server's status."""
        return self.ask("maintenance/status", within=2.0)

    @cached_property
    def id(self) -> int:
        """The server's member id, which never changes."""
        return int(self.state()["header"]["member_id"])

    def let_in(
        self, user: str, password: str, *, prefix: str, readers: tuple[str, ...] = ()
    ) -> Self:
        """Enable authentication: only root, and this user on keys with this prefix, have access.

        Users in `readers` may read these keys but not write them. All users have the same password.
        """
        rights = {user: "READWRITE", **dict.fromkeys(readers, "READ")}
        for name in ("root", *rights):
            self.ask("auth/user/add", name=name, password=password)
            self.ask("auth/role/add", name=name)
            self.ask("auth/user/grant", user=name, role=name)
        for name, right in rights.items():
            self.allow(name, prefix=prefix, right=right)
        self.ask("auth/enable")
        self.login = {"username": "root", "password": password}
        return self

    def allow(self, user: str, *, prefix: str, right: str = "READWRITE") -> None:
        """Give a user a right to the keys with this prefix."""
        self.ask("auth/role/grant", name=user, perm={"permType": right, **_range(prefix)})

    def forbid(self, user: str, *, prefix: str) -> None:
        """Revoke the user's right to the keys with this prefix."""
        self.ask("auth/role/revoke", role=user, **_range(prefix))

    def url_of(self, user: str) -> str:
        """Return the server's URL for one of its users."""
        return self.url.replace("://", f"://{user}:{self.login['password']}@")


def _range(prefix: str) -> dict[str, Any]:
    begin, end = prefix.encode() or b"\0", _end(prefix.encode())
    return {"key": _coded(begin), "range_end": _coded(end)}


def _coded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _end(prefix: bytes) -> bytes:
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else b"\0"


class EtcdCluster(Three[EtcdServer]):
    """Three servers that elect a leader among themselves."""

    kind = "cluster"
    scheme = "etcd"
    client_options: ClassVar[dict[str, str]] = {}
    """Further options that a Lockfast client needs: none."""

    def __init__(self, *options: str) -> None:
        super().__init__()
        self._options = options

    def make(self) -> list[EtcdServer]:
        """Return three servers that are configured with each other's addresses."""
        members = [EtcdServer(*self._options, name=f"n{number}") for number in range(3)]
        cluster = ",".join(f"{one.name}=http://127.0.0.1:{self.way(one)}" for one in members)
        for one in members:
            one.cluster = cluster
        return members

    def way(self, member: EtcdServer) -> int:
        """Return the port at which the other members reach this member."""
        return member.peer_port

    def leader(self) -> EtcdServer:
        """Return the current leader; wait if an election is under way."""
        found: list[EtcdServer] = []

        def is_found() -> bool:
            for one in self.members:
                # A member that does not reply is not the leader, but another member may be.
                with suppress(OSError):
                    if one.is_running and int(one.state().get("leader", 0)) == one.id:
                        found[:] = [one]
            return bool(found)

        until(is_found, what="somebody leads")
        return found[0]

    def followers(self) -> list[EtcdServer]:
        """Return all members but the leader."""
        leader = self.leader()
        return [one for one in self.members if one is not leader]

    def until_whole(self) -> None:
        """Return once all members serve."""
        eventually(lambda: all(one.serves() for one in self.members), what="all of them serve")

    def ask(self, path: str, **body: Any) -> dict[str, Any]:
        """Return the leader's reply."""
        return self.leader().ask(path, **body)

    def keys(self, prefix: str = "", **options: Any) -> dict[bytes, bytes]:
        """Return the keys with this prefix, as the leader has them."""
        return self.leader().keys(prefix, **options)


# Partitions between the members of a cluster.

FROM = re.compile(rb"X-Server-From: ([0-9a-f]+)\r\n")
"""Matches the id that each member sends in its first request to another member."""


class PeerProxy(Proxy):
    """The proxy in front of one member, which can cut off each of the other members separately.

    All members use the same addresses, so a connection is identified by the id in its first
    request.
    """

    def __init__(self, port: int) -> None:
        super().__init__(port, listens_within=2.0)
        self._member_of: dict[Connection, int] = {}
        self._cut: dict[int, bool] = {}

    def cut_from(self, member: int, *, silently: bool) -> None:
        """Stop forwarding a member's requests, and the replies to them."""

        async def cut() -> None:
            self._cut[member] = silently
            for one in self._connections & self._member_of.keys():
                self._stop(one)

        self._on_loop(cut)

    def mend(self) -> None:
        """Forward everything again; messages that were under way at the cut are lost."""
        self._cut.clear()
        if self.is_refusing:
            super().mend()
        else:
            self._on_loop(self._reset_stopped)

    async def _reset_stopped(self) -> None:
        for one in self._connections:
            if not one.up.is_open.is_set():
                one.reset()
                one.up.is_open.set()
                one.down.is_open.set()

    def _stop(self, one: Connection) -> None:
        silently = self._cut.get(self._member_of[one])
        if silently is None:
            return
        one.up.is_open.clear()
        one.down.is_open.clear()
        if not silently:
            one.reset()

    def _apply_rules(self, one: Connection, request: Message) -> None:
        if one not in self._member_of and (found := FROM.search(request.data)):
            self._member_of[one] = int(found[1], 16)
            self._stop(one)
        super()._apply_rules(one, request)


class PartitionableCluster(EtcdCluster):
    """A cluster whose members can be cut off from each other, but not from their clients."""

    def __init__(self, *options: str) -> None:
        super().__init__(*options)
        self._proxies: dict[str, PeerProxy] = {}

    def way(self, member: EtcdServer) -> int:
        """Return the port of a new proxy in front of the member."""
        found = self._proxies[member.name] = PeerProxy(member.peer_port)
        return found.__enter__().port

    def cut_off(self, member: EtcdServer, *, silently: bool) -> None:
        """Cut a member off from all other members.

        If `silently`, no member is notified. Otherwise existing and new connections are reset.
        """
        number = member.id
        for name, way in self._proxies.items():
            if name != member.name:
                way.cut_from(number, silently=silently)
            elif silently:
                way.cut()
            else:
                way.refuse()

    def until_whole(self) -> None:
        """Return once all members serve; cache their ids, in case a member is frozen later."""
        super().until_whole()
        for one in self.members:
            _ = one.id

    def heal(self) -> Self:
        """Mend all proxies and heal the cluster; return once all members follow the same leader."""
        for way in self._proxies.values():
            way.mend()
        super().heal()
        eventually(self._agree, what="all follow the same leader", despite=(OSError,))
        return self

    def _agree(self) -> bool:
        states = [one.state() for one in self.members]
        return len({(one.get("leader"), one.get("raftTerm")) for one in states}) == 1

    def stop(self) -> None:
        """Stop all members, and the proxies between them."""
        super().stop()
        for way in self._proxies.values():
            with suppress(RuntimeError):  # the proxy was never started
                way.__exit__()
        self._proxies.clear()
