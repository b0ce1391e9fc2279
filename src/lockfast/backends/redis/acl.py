"""The smallest ACL for a Redis user: the commands that it needs and the ones to withhold."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from lockfast.backends.redis.requests import SCRIPT_VERBS
from lockfast.backends.redis.resp import packed
from lockfast.backends.redis.scripts import redis_script

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lockfast.backends.redis.durability import Durability

DIRECT = ("EVALSHA", "SCRIPT LOAD", "SUBSCRIBE", "UNSUBSCRIBE", "SCAN")
"""Commands that the client sends itself; all other commands are run by the scripts, as the same
user."""

CLUSTER = ("CLUSTER SLOTS", "ASKING")
"""Additional commands on a cluster, to find nodes and to follow moved slots. The check that a node
still belongs to the cluster uses EXISTS, which is not listed because the scripts need it anyway."""

CONFIRMING: dict[Durability | None, tuple[str, ...]] = {
    None: (),
    "replica": ("WAIT",),
    "fsync": ("WAITAOF",),
}
"""Additional commands for each durability."""

SENTINEL = "-@all +sentinel|masters +sentinel|get-master-addr-by-name"
"""ACL rules for the user at the Sentinels, which have users of their own."""

TOO_WIDE = ("FLUSHALL", "CONFIG SET", "SHUTDOWN")
"""Commands that no user needs just to take locks."""


@cache
def commands(*, is_cluster: bool = False, durability: Durability | None = None) -> tuple[str, ...]:
    """Return every command that a user needs, in upper case."""
    sources = [redis_script(verb).source.decode() for verb in SCRIPT_VERBS]
    besides = (*(CLUSTER if is_cluster else ()), *CONFIRMING[durability])
    return (*DIRECT, *run_by(sources), *besides)


def run_by(sources: Iterable[str]) -> list[str]:
    """Return every command that these scripts run."""
    return sorted({one for text in sources for one in re.findall(r"call\('(\w+)'", text)})


def smallest(namespace: str, needed: Sequence[str] | None = None) -> str:
    """Return the rules of a user that can run the needed commands and nothing else."""
    allowed = rules(commands() if needed is None else needed)
    return f"-@all {allowed} ~{namespace}:* &{namespace}:inbox:*"


def rules(needed: Sequence[str]) -> str:
    """Return the commands as ACL rules."""
    return " ".join(f"+{one.lower().replace(' ', '|')}" for one in needed)


def question(namespace: str, asked: Sequence[str]) -> bytes:
    """Return the request that reports which commands are allowed on our keys and channels."""
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
