"""The verbs as questions to every node, and the scripts of one birth of a node.

A question is written once for all of them. Only the name of the script differs: each birth has
scripts of its own, so that a node which was restarted does not know them, and says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockfast.backends.redis.requests import SECOND, Keys, head_of_call
from lockfast.backends.redis.resp import packed, packed_arguments
from lockfast.backends.redis.scripts import Script, script_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.model import Claim

VERBS = ("acquire", "raise", "renew", "release", "withdraw", "break", "inspect", "witness", "admit")
KEYS = ("hold", "buried", "waiting")
"""None is a kind of a single Redis: in one namespace neither touches what the other keeps."""

EVERY_ATTEMPT = 2**53 - 1


@dataclass(frozen=True, slots=True)
class Question:
    """A call of a script, but for which birth's it is."""

    verb: str
    keys: int
    count: int
    rest: bytes

    def to(self, scripts: Scripts) -> bytes:
        """Return it as one node is asked."""
        return head_of_call(scripts.shas[self.verb], self.keys, self.count) + self.rest


class Scripts:
    """The scripts of one birth."""

    def __init__(self, birth: str) -> None:
        self.birth = birth
        made = {verb: Script.from_text(source(verb).replace("@birth@", birth)) for verb in VERBS}
        self.shas: dict[str, bytes] = {verb: one.sha for verb, one in made.items()}
        self.loading: list[bytes] = [
            packed(b"SCRIPT", b"LOAD", one.source) for one in made.values()
        ]
        """What lets the node know them."""


def source(verb: str) -> str:
    """Return the text of a script, as it is for every birth."""
    return script_text(f"{__package__}.scripts", verb)


class Questions:
    """The questions in one namespace."""

    def __init__(self, namespace: str) -> None:
        self.names: Keys = Keys(namespace, KEYS)
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
    ) -> Question:
        """Return the question; an empty inbox is not woken."""
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

    def raise_(self, claim: Claim, *, token: int) -> Question:
        """Return the question."""
        return self._about("raise", claim.name, claim.id, token)

    def renew(self, claim: Claim) -> Question:
        """Return the question."""
        return self._about("renew", claim.name, claim.id, _us(claim.ttl))

    def release(self, claim: Claim, *, tombstone: bool) -> Question:
        """Return the question; nothing of this claim is asked for any more."""
        buried = EVERY_ATTEMPT if tombstone else ""
        return self._about("release", claim.name, claim.id, buried)

    def withdraw(
        self, claim: Claim, *, tombstone: bool, attempt: int = EVERY_ATTEMPT, inbox: str = ""
    ) -> Question:
        """Return the question; a later attempt is left alone."""
        return self._about("withdraw", claim.name, claim.id, attempt, int(tombstone), inbox)

    def break_(self, name: str, claims: Sequence[str]) -> Question:
        """Return the question for these claims, of which a node has one at most."""
        return self._about("break", name, *claims)

    def inspect(self, name: str) -> Question:
        """Return the question."""
        return self._about("inspect", name)

    def witness(self, birth: str, *, age: float, remember: bool = True) -> Question:
        """Return the question since when a node knows of a birth."""
        return self._about_nodes("witness", birth, _us(age), int(remember))

    def admit(self, least: int) -> Question:
        """Return the question that lets a node count."""
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
        """Return the requests by which a process is known, or gets known by that birth."""
        script = self._enrolling
        terms = (_us(max_ttl), int(durable), nodes)
        arguments = [_text(one) for one in (run_id, birth, *terms, may_write)]
        call = head_of_call(script.sha, 1, len(arguments)) + self._node
        call += packed_arguments(arguments)
        return [packed(b"SCRIPT", b"LOAD", script.source), call]

    def _about(self, verb: str, name: str, *arguments: object) -> Question:
        rest = self.names.of(name) + self._node + packed_arguments(map(_text, arguments))
        return Question(verb, len(KEYS) + 1, len(arguments), rest)

    def _about_nodes(self, verb: str, *arguments: object) -> Question:
        rest = self._seen + self._node + packed_arguments(map(_text, arguments))
        return Question(verb, 2, len(arguments), rest)


def _text(argument: object) -> bytes:
    return str(argument).encode()


def _us(seconds: float) -> int:
    return round(seconds * SECOND)
