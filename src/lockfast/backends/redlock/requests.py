"""Requests to every node, and the scripts for one birth of a node.

A request is written once for all nodes. Only the name of the script differs between nodes, because
each birth has scripts of its own. A node that was restarted no longer has its old scripts, and says
so in its reply.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockfast.backends.redis.requests import SECOND, RedisKeys, head_of_call
from lockfast.backends.redis.resp import packed, packed_arguments
from lockfast.backends.redis.scripts import Script, script_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.model import Claim

NODE_VERBS = (
    "acquire",
    "raise",
    "renew",
    "release",
    "withdraw",
    "break",
    "inspect",
    "witness",
    "admit",
)
NODE_KEYS = ("hold", "buried", "waiting")
"""Kinds of keys. The Redis backend has other kinds, so that neither backend touches the other's
data in a namespace that both use."""

EVERY_ATTEMPT = 2**53 - 1


@dataclass(frozen=True, slots=True)
class NodeRequest:
    """A script call that is not yet tied to the scripts of one birth."""

    verb: str
    keys: int
    count: int
    rest: bytes

    def to(self, scripts: Scripts) -> bytes:
        """Return the request for a node with these scripts."""
        return head_of_call(scripts.shas[self.verb], self.keys, self.count) + self.rest


class Scripts:
    """The scripts for one birth of a node: for one run of its server process."""

    def __init__(self, birth: str) -> None:
        self.birth = birth
        made = {
            verb: Script.from_text(source(verb).replace("@birth@", birth)) for verb in NODE_VERBS
        }
        self.shas: dict[str, bytes] = {verb: one.sha for verb, one in made.items()}
        self.loading: list[bytes] = [
            packed(b"SCRIPT", b"LOAD", one.source) for one in made.values()
        ]
        """Requests that load the scripts into the node."""


def source(verb: str) -> str:
    """Return the text of a script, with a placeholder for the birth."""
    return script_text(f"{__package__}.scripts", verb)


class NodeRequests:
    """The requests in one namespace."""

    def __init__(self, namespace: str) -> None:
        self.names: RedisKeys = RedisKeys(namespace, NODE_KEYS)
        self.node_key: str = f"{namespace}:redlock:node"
        self._node = packed_arguments((self.node_key.encode(),))
        self._seen = packed_arguments((f"{namespace}:redlock:seen".encode(),))
        self._enrolling = Script.from_text(source("enrol"))

    def acquire(
        self,
        claim: Claim,
        *,
        attempt: int,
        floor: float = 0.0,
        inbox: str = "",
        waited: float = 0.0,
        is_led: bool = False,
    ) -> NodeRequest:
        """Return the request to acquire; if `inbox` is "", the claim receives no wakeups."""
        return self._about(
            "acquire",
            claim.name,
            claim.id,
            attempt,
            _us(claim.ttl),
            _us(claim.min_hold),
            _us(floor),
            inbox,
            _us(waited),
            int(is_led),
            claim.owner,
        )

    def raise_(self, claim: Claim, *, token: int) -> NodeRequest:
        """Return the request that raises the claim's token to `token`."""
        return self._about("raise", claim.name, claim.id, token)

    def renew(self, claim: Claim) -> NodeRequest:
        """Return the request for a renewal."""
        return self._about("renew", claim.name, claim.id, _us(claim.ttl))

    def release(self, claim: Claim, *, tombstone: bool) -> NodeRequest:
        """Return the request to release; its tombstone covers every attempt of the claim."""
        buried = EVERY_ATTEMPT if tombstone else ""
        return self._about("release", claim.name, claim.id, buried)

    def withdraw(
        self, claim: Claim, *, tombstone: bool, attempt: int = EVERY_ATTEMPT, inbox: str = ""
    ) -> NodeRequest:
        """Return the request to withdraw; attempts after `attempt` are not affected."""
        return self._about("withdraw", claim.name, claim.id, attempt, int(tombstone), inbox)

    def break_(self, name: str, claims: Sequence[str]) -> NodeRequest:
        """Return the request to break these claims; each node has granted at most one of them."""
        return self._about("break", name, *claims)

    def inspect(self, name: str) -> NodeRequest:
        """Return the request that inspects a name."""
        return self._about("inspect", name)

    def witness(self, birth: str, *, age: float, remember: bool = True) -> NodeRequest:
        """Return the request that asks a node for how long it has known of a birth."""
        return self._about_nodes("witness", birth, _us(age), int(remember))

    def admit(self, least: int) -> NodeRequest:
        """Return the request that makes a node count again."""
        return self._about_nodes("admit", least)

    def enrol(
        self,
        run_id: str,
        birth: str,
        *,
        max_ttl: float,
        durable: bool,
        nodes: int,
        may_write: int,
    ) -> list[bytes]:
        """Return the requests that read a process's birth, or give it `birth` if it has none."""
        script = self._enrolling
        terms = (_us(max_ttl), int(durable), nodes)
        arguments = [_text(one) for one in (run_id, birth, *terms, may_write)]
        call = head_of_call(script.sha, 1, len(arguments)) + self._node
        call += packed_arguments(arguments)
        return [packed(b"SCRIPT", b"LOAD", script.source), call]

    def _about(self, verb: str, name: str, *arguments: object) -> NodeRequest:
        rest = self.names.of(name) + self._node + packed_arguments(map(_text, arguments))
        return NodeRequest(verb, len(NODE_KEYS) + 1, len(arguments), rest)

    def _about_nodes(self, verb: str, *arguments: object) -> NodeRequest:
        rest = self._seen + self._node + packed_arguments(map(_text, arguments))
        return NodeRequest(verb, 2, len(arguments), rest)


def _text(argument: object) -> bytes:
    return str(argument).encode()


def _us(seconds: float) -> int:
    return round(seconds * SECOND)
