"""What a server's own words say about the promises that locks on it can keep; pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockfast.backends.redis import permissions
from lockfast.backends.redis.cluster.findings import node_findings
from lockfast.model import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lockfast.backends.redis.durability import Durability

OLDEST = (7, 0)
NEARLY_FULL = 0.9
LAG = 5
"""Replicas say every second what they have; silent for so many, they are behind."""

CLOCKS_APART = 1.0


@dataclass(frozen=True, slots=True)
class Facts:
    """What could be read; None stands for what this user may not read.

    `ahead` is by how many seconds the server's clock is ahead of ours, at least; `allowed`
    is what the user may run of what the server knows, or the sentence that says why it cannot
    be asked. A node of a cluster has no `where`: it is named by whoever puts all together.
    """

    where: str
    namespace: str
    info: Mapping[str, str] | None
    settings: Mapping[str, str] | None
    ahead: float | None
    allowed: Mapping[str, bool] | str
    is_node: bool = False
    durability: Durability | None = None
    needed: tuple[str, ...] | None = None
    """The commands that are needed; None where they are those of a single Redis."""


def findings(facts: Facts) -> list[Finding]:
    """Return what an operator should know."""
    return [
        *_server(facts),
        *_memory(facts.info or {}),
        *_persistence(facts),
        *_replicas(facts),
        *_durability(facts),
        *(node_findings(facts.settings) if facts.is_node else ()),
        *_clock(facts.ahead),
        *_permissions(facts),
        *_unread(facts),
    ]


def _server(facts: Facts) -> Iterator[Finding]:
    info = facts.info or {}
    if not info:
        yield Finding("ok", "server", f"{facts.where} answers".strip())
        return
    kind = "Valkey" if "valkey_version" in info else "Redis"
    version = info.get("valkey_version") or info.get("redis_version", "?")
    parts = tuple(int(one) for one in re.findall(r"\d+", version)[:2])
    what = f"{facts.where} is {kind} {version}" if facts.where else f"{kind} {version}"
    if kind == "Redis" and parts < OLDEST:
        yield Finding(
            "error",
            "server",
            f"{what}, which cannot run Lockfast's scripts",
            "Redis 7.0 or newer, or Valkey, is needed",
        )
    else:
        yield Finding("ok", "server", what)


def _memory(info: Mapping[str, str]) -> Iterator[Finding]:
    if "maxmemory" not in info:
        return
    most, policy = int(info["maxmemory"]), info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction" and most:
        yield Finding(
            "error",
            "eviction",
            f"maxmemory-policy is {policy}: when memory is short, the server deletes locks that "
            "are held, and tokens",
            "CONFIG SET maxmemory-policy noeviction, or a server of their own for the locks",
        )
    elif policy != "noeviction":
        yield Finding(
            "note",
            "eviction",
            f"maxmemory-policy is {policy}; it does no harm while there is no maxmemory",
            "CONFIG SET maxmemory-policy noeviction",
        )
    else:
        yield Finding("ok", "eviction", "nothing is evicted (noeviction)")
    if not most:
        return
    used = int(info.get("used_memory", "0")) - int(info.get("mem_not_counted_for_evict", "0"))
    share = f"{used * 100 // most} % of maxmemory is used"
    if used >= most:
        yield Finding(
            "error",
            "memory",
            f"{share}: nothing new can be locked; what is held is still renewed",
            "raise maxmemory, or delete other data",
        )
    elif used >= NEARLY_FULL * most:
        yield Finding(
            "warning",
            "memory",
            f"{share}: soon nothing new can be locked",
            "raise maxmemory, or delete other data",
        )
    else:
        yield Finding("ok", "memory", share)


def _persistence(facts: Facts) -> Iterator[Finding]:
    if facts.info is None:
        return
    settings = facts.settings or {}
    if facts.info.get("aof_enabled") == "1":
        fsync = settings.get("appendfsync")
        if fsync == "always":
            yield Finding("ok", "persistence", "every grant is on disk before it counts")
            return
        window = {"everysec": "the last second", "no": "what the kernel had not yet written"}
        yield Finding(
            "note",
            "persistence",
            f"a power cut may lose {window.get(fsync or '', 'the last grants')} "
            f"(appendfsync {fsync or 'cannot be read'}); a killed server loses nothing",
            "appendfsync always, if a lock must outlive a power cut; it costs speed",
        )
    elif settings.get("save"):
        yield Finding(
            "warning",
            "persistence",
            "snapshots only: a restart brings back old locks and forgets new ones, so two "
            "processes may both believe they hold one until the first is told",
            "appendonly yes",
        )
    else:
        yield Finding(
            "warning",
            "persistence",
            "no append-only file: a restart forgets every lock, so two processes may both "
            "believe they hold one until the first is told; tokens still grow, by the server's "
            "clock",
            "appendonly yes",
        )


def _replicas(facts: Facts) -> Iterator[Finding]:
    info = facts.info or {}
    if info.get("role") == "slave":
        yield Finding(
            "error",
            "replicas",
            f"{facts.where} is a replica, and locks are kept on its master",
            f"give the master's address: {info.get('master_host')}:{info.get('master_port')}",
        )
        return
    replicas = [_replica(info[f"slave{n}"]) for n in range(_number(info, "connected_slaves"))]
    needed = _number(facts.settings or {}, "min-replicas-to-write")
    lag = _number(facts.settings or {}, "min-replicas-max-lag") or LAG
    good = [one for one in replicas if one.get("state") == "online" and int(one["lag"]) <= lag]
    if needed > len(good):
        yield Finding(
            "error",
            "replicas",
            f"{len(good)} of the {needed} replicas that min-replicas-to-write asks for are there: "
            "nothing can be locked",
            "bring the replicas back, or lower min-replicas-to-write",
        )
        return
    for one in replicas:
        if one not in good:
            address = f"{one.get('ip')}:{one.get('port')}"
            yield Finding(
                "warning",
                "replicas",
                f"the replica {address} is {one.get('state')} and {one.get('lag')} s behind: "
                "should it become the master, it does not know the latest locks",
                "see its log, and the way between the two",
            )
    if replicas and facts.settings is not None and not needed:
        yield Finding(
            "note",
            "replicas",
            "a failover may lose locks that were just granted: the server does not wait for its "
            f"{len(replicas)} replica(s)",
            "min-replicas-to-write 1 keeps that time short; the token is what makes it safe",
        )
    elif good:
        yield Finding("ok", "replicas", f"{len(good)} replica(s), {needed} needed to write")


def _durability(facts: Facts) -> Iterator[Finding]:
    info = facts.info or {}
    if facts.durability == "replica" and info.get("connected_slaves") == "0":
        yield Finding(
            "error",
            "durability",
            "durability='replica' is asked for, and there is no replica: nothing can be locked",
            "start a replica, or leave durability out",
        )
    elif facts.durability == "fsync" and (
        info.get("aof_enabled") == "0"
        or (not isinstance(facts.allowed, str) and "WAITAOF" not in facts.allowed)
    ):
        yield Finding(
            "error",
            "durability",
            "durability='fsync' is asked for, and this server cannot say what is on its disk: "
            "nothing can be locked",
            "Redis 7.2 or newer, or Valkey, with appendonly yes; or leave durability out",
        )
    elif facts.durability is not None:
        whose = "a replica" if facts.durability == "replica" else "its disk"
        yield Finding("ok", "durability", f"a grant counts when {whose} has it")


def _replica(text: str) -> dict[str, str]:
    return {"lag": "0", **dict(one.split("=", 1) for one in text.split(",") if "=" in one)}


def _number(values: Mapping[str, str], name: str) -> int:
    return int(values.get(name) or 0)


def _clock(ahead: float | None) -> Iterator[Finding]:
    if ahead is None:
        return
    if abs(ahead) <= CLOCKS_APART:
        yield Finding("ok", "clock", "the server's clock agrees with ours")
        return
    yield Finding(
        "warning",
        "clock",
        f"the server's clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} ours: "
        "tokens are made of it, so putting it right while data is lost could let them go back",
        "let both run ntp; put a clock right slowly, not by a jump",
    )


def _permissions(facts: Facts) -> Iterator[Finding]:
    needed = facts.needed or permissions.commands(
        is_cluster=facts.is_node, durability=facts.durability
    )
    rules = permissions.smallest(facts.namespace, needed)
    if isinstance(facts.allowed, str):
        yield Finding("error", "permissions", facts.allowed, f"ACL SETUSER <user> {rules}")
        return
    missing = [one for one in needed if not facts.allowed.get(one, True)]
    if missing:
        yield Finding(
            "error",
            "permissions",
            f"this user may not run {', '.join(missing)} on {facts.namespace}:* "
            f"and the channels {facts.namespace}:inbox:*",
            f"ACL SETUSER <user> {rules}",
        )
        return
    too_wide = [one for one in permissions.TOO_WIDE if facts.allowed[one]]
    if too_wide:
        yield Finding(
            "note",
            "permissions",
            f"this user may do more than locks need, such as {', '.join(too_wide)}",
            f"ACL SETUSER <user> {rules}",
        )
    else:
        yield Finding("ok", "permissions", "all that is needed, and little else")


def _unread(facts: Facts) -> Iterator[Finding]:
    unread = [
        name
        for name, value in (("INFO", facts.info), ("CONFIG GET", facts.settings))
        if value is None
    ]
    if unread:
        yield Finding(
            "note",
            "settings",
            f"{' and '.join(unread)} may not be run here, so this is not the whole picture",
            "look at maxmemory-policy, appendonly and min-replicas-to-write by other means",
        )
