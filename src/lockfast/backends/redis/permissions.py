"""What a user of the server must be allowed, and what not: the smallest ACL."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from lockfast.backends.redis.requests import VERBS
from lockfast.backends.redis.resp import packed
from lockfast.backends.redis.scripts import redis_script

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lockfast.backends.redis.durability import Durability

DIRECT = ("EVALSHA", "SCRIPT LOAD", "SUBSCRIBE", "UNSUBSCRIBE", "SCAN")
"""What the client itself runs; the rest is run by the scripts, as the same user."""

CLUSTER = ("CLUSTER SLOTS", "ASKING")
"""What it runs besides on a cluster: to find a node, to follow a slot. To see that a node still
hears the others it runs EXISTS, which the scripts need as well."""

CONFIRMING: dict[Durability | None, tuple[str, ...]] = {
    None: (),
    "replica": ("WAIT",),
    "fsync": ("WAITAOF",),
}
"""What each durability needs besides."""

SENTINEL = "-@all +sentinel|masters +sentinel|get-master-addr-by-name"
"""The rules of a user of the Sentinels, who is another one than the server's."""

TOO_WIDE = ("FLUSHALL", "CONFIG SET", "SHUTDOWN")
"""What nobody needs who only takes locks."""


@cache
def commands(*, is_cluster: bool = False, durability: Durability | None = None) -> tuple[str, ...]:
    """Return every command that is needed, as the scripts name them."""
    sources = [redis_script(verb).source.decode() for verb in VERBS]
    besides = (*(CLUSTER if is_cluster else ()), *CONFIRMING[durability])
    return (*DIRECT, *run_by(sources), *besides)


def run_by(sources: Iterable[str]) -> list[str]:
    """Return every command that these scripts run."""
    return sorted({one for text in sources for one in re.findall(r"call\('(\w+)'", text)})


def smallest(namespace: str, needed: Sequence[str] | None = None) -> str:
    """Return the rules of a user who can do what is needed, and nothing else."""
    allowed = rules(commands() if needed is None else needed)
    return f"-@all {allowed} ~{namespace}:* &{namespace}:inbox:*"


def rules(needed: Sequence[str]) -> str:
    """Return the commands as an ACL allows them."""
    return " ".join(f"+{one.lower().replace(' ', '|')}" for one in needed)


def question(namespace: str, asked: Sequence[str]) -> bytes:
    """Return the request that asks which of the commands are allowed, on something of ours."""
    examples = [_example(one, namespace).encode() for one in asked]
    return packed(b"EVALSHA", redis_script("permissions").sha, b"0", *examples)


_WITHOUT_KEYS = {
    **{one: one for one in (*DIRECT, *CLUSTER, *TOO_WIDE, "INFO", "TIME")},
    "SCRIPT LOAD": "SCRIPT LOAD x",
    "EVALSHA": "EVALSHA x 0",
    "WAIT": "WAIT 1 1",
    "WAITAOF": "WAITAOF 1 0 1",
}


def _example(command: str, namespace: str) -> str:
    if command in ("PUBLISH", "SUBSCRIBE"):
        return f"{command} {namespace}:inbox:0"
    return _WITHOUT_KEYS.get(command, f"{command} {namespace}:{{x}}:door")
