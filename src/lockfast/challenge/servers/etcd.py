"""Real etcd servers: one, or a cluster of three.

What a test asks of them besides goes by their JSON gateway, which none of our own code knows.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import urllib.error
import urllib.request
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

from lockfast.challenge.eventually import eventually
from lockfast.challenge.servers.starting import Server, Three, free_ports

if TYPE_CHECKING:
    from lockfast.challenge.servers.certificates import Certificates

ELECTION = 0.5
"""So long the members of a cluster wait for their leader before they elect another: by default
twice that, and then no lease is shorter than two seconds."""

until: partial[None] = partial(eventually, despite=(OSError,))
"""Wait until the condition is true; a server that does not answer is not yet there."""

AT_ONCE = ("--heartbeat-interval", "20", "--election-timeout", "200")
"""For one that has nobody to elect: it serves sooner, and grants leases of a second."""


PATIENTLY = (
    *("--heartbeat-interval", f"{ELECTION * 100:.0f}"),
    *("--election-timeout", f"{ELECTION * 1000:.0f}"),
)


class EtcdServer(Server):
    """One `etcd`; what it was told outlives its process.

    With certificates it speaks TLS alone, and asks for the client's if `asks` is true.
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
        """All members with their peer URLs, as the option takes it; else it is alone."""

    def choose_ports(self) -> None:
        """Choose where it listens to clients, to other members, and to who asks for its health."""
        self.port, self.peer_port, self.health_port = free_ports(3)

    @property
    def scheme(self) -> str:
        """The scheme of its URLs, as etcd has them."""
        return "http" if self.tls is None else "https"

    @property
    def url(self) -> str:
        """Where it is, without a password."""
        return f"{'etcd' if self.tls is None else 'etcds'}://{self.address}"

    @property
    def client_options(self) -> dict[str, str]:
        """What a client of Lockfast has to know besides."""
        return {**({} if self.tls is None else self.tls.client_options()), **self.login}

    def command(self) -> list[str]:
        """Return what is run."""
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
            # The disk is not on trial, nor how long a password takes to guess.
            *("--unsafe-no-fsync", "--bcrypt-cost", "4"),
            *("--logger", "zap", "--log-level", "error"),
            *(PATIENTLY if self.cluster else AT_ONCE),
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
        """Whether it says that it is well; without a leader it is not."""
        try:
            return bool(json.loads(self._told("health"))["health"] == "true")
        except (OSError, ValueError):
            return False

    def figure(self, name: str) -> int:
        """Return one of the figures that it counts, such as etcd_server_slow_apply_total."""
        for line in self._told("metrics").splitlines():
            key, _, value = line.partition(" ")
            if key == name:
                return int(float(value))
        raise KeyError(name)

    def _told(self, page: str) -> str:
        where = f"http://127.0.0.1:{self.health_port}/{page}"
        with urllib.request.urlopen(where, timeout=2) as answer:
            return bytes(answer.read()).decode()

    def ask(self, path: str, within: float = 10.0, **body: Any) -> dict[str, Any]:
        """Return the answer of its JSON gateway, such as to `kv/range`; an error is raised."""
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
        """Return the keys that begin so, with their values."""
        found = self.ask("kv/range", **_range(prefix), **options)
        return {
            base64.b64decode(one["key"]): base64.b64decode(one.get("value", ""))
            for one in found.get("kvs", [])
        }

    def put(self, key: str, value: str = "") -> None:
        """Keep a value."""
        self.ask("kv/put", key=_coded(key.encode()), value=_coded(value.encode()))

    def delete(self, key: bytes) -> None:
        """Delete a key."""
        self.ask("kv/deleterange", key=_coded(key))

    def fill(self) -> None:
        """Put keys there until it takes no more; it should have been given little room."""
        with suppress(urllib.error.HTTPError):
            while True:
                self.put(f"fill/{os.urandom(8).hex()}", "x" * 50_000)

    def state(self) -> dict[str, Any]:
        """Return what it says of itself."""
        return self.ask("maintenance/status", within=2.0)

    @cached_property
    def id(self) -> int:
        """The number by which members know it, which it keeps."""
        return int(self.state()["header"]["member_id"])

    def let_in(
        self, user: str, password: str, *, prefix: str, readers: tuple[str, ...] = ()
    ) -> Self:
        """Let nobody in from now on but root, and this user to keys that begin so.

        Readers may not write them. All passwords are the same.
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
        """Let a user to the keys that begin so."""
        self.ask("auth/role/grant", name=user, perm={"permType": right, **_range(prefix)})

    def forbid(self, user: str, *, prefix: str) -> None:
        """Take that right away."""
        self.ask("auth/role/revoke", role=user, **_range(prefix))

    def url_of(self, user: str) -> str:
        """Return where it is, for a user whom it knows."""
        return self.url.replace("://", f"://{user}:{self.login['password']}@")


def _range(prefix: str) -> dict[str, Any]:
    begin, end = prefix.encode() or b"\0", _end(prefix.encode())
    return {"key": _coded(begin), "range_end": _coded(end)}


def _coded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _end(prefix: bytes) -> bytes:
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else b"\0"


class Cluster(Three[EtcdServer]):
    """Three servers that elect a leader among themselves."""

    kind = "cluster"
    scheme = "etcd"
    client_options: ClassVar[dict[str, str]] = {}
    """What a client of Lockfast has to know besides: nothing."""

    def __init__(self, *options: str) -> None:
        super().__init__()
        self._options = options

    def make(self) -> list[EtcdServer]:
        """Return three that know of each other."""
        members = [EtcdServer(*self._options, name=f"n{number}") for number in range(3)]
        cluster = ",".join(f"{one.name}=http://127.0.0.1:{self.way(one)}" for one in members)
        for one in members:
            one.cluster = cluster
        return members

    def way(self, member: EtcdServer) -> int:
        """Return the port by which others reach a member."""
        return member.peer_port

    def leader(self) -> EtcdServer:
        """Return who leads now; wait if an election is on."""
        found: list[EtcdServer] = []

        def is_found() -> bool:
            for one in self.members:
                # Who does not answer does not lead; the next one may.
                with suppress(OSError):
                    if one.is_running and int(one.state().get("leader", 0)) == one.id:
                        found[:] = [one]
            return bool(found)

        until(is_found, what="somebody leads")
        return found[0]

    def followers(self) -> list[EtcdServer]:
        """Return all but the leader."""
        leader = self.leader()
        return [one for one in self.members if one is not leader]

    def until_whole(self) -> None:
        """Return once all serve."""
        eventually(lambda: all(one.serves() for one in self.members), what="all of them serve")

    def ask(self, path: str, **body: Any) -> dict[str, Any]:
        """Return the leader's answer."""
        return self.leader().ask(path, **body)

    def keys(self, prefix: str = "", **options: Any) -> dict[bytes, bytes]:
        """Return the keys that begin so, as the leader has them."""
        return self.leader().keys(prefix, **options)
