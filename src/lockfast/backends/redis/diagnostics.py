"""What `lockfast doctor` concludes about Redis servers, Sentinels and clusters."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lockfast.backends.redis import acl
from lockfast.backends.redis.cluster_map import NAME_THEM, UNNAMED, spans
from lockfast.backends.redis.routing import SLOTS
from lockfast.backends.redis.sentinel_replies import named
from lockfast.errors import LockError
from lockfast.model import Finding
from lockfast.options import DEFAULT_TTL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lockfast.backends.redis.cluster_map import Coverage
    from lockfast.backends.redis.durability import Durability
    from lockfast.backends.redis.sentinel_replies import SentinelReply
    from lockfast.core.descriptor import Endpoint


# Findings about the nodes of a cluster: what their settings mean for locks. No I/O.


def node_findings(settings: Mapping[str, str] | None) -> Iterator[Finding]:
    """Yield what the settings of one node mean for the whole cluster."""
    known = settings or {}
    if known.get("cluster-require-full-coverage") == "yes":
        yield Finding.warning(
            "coverage",
            "cluster-require-full-coverage is yes: while nobody serves the slots of one dead node, "
            "all nodes refuse everything, and leases on healthy ones are lost when their ttl is "
            "over",
            "CONFIG SET cluster-require-full-coverage no, on every node",
        )
    elif "cluster-require-full-coverage" in known:
        yield Finding.ok("coverage", "a dead node costs the names of its own slots alone")
    if "cluster-node-timeout" not in known:
        return
    timeout = int(known["cluster-node-timeout"]) / 1000
    # The other nodes suspect a dead node after one timeout, and agree that it is dead within a
    # second timeout. Then the replicas of the dead node elect a new master.
    away = 2 * timeout + 1
    sentence = (
        f"cluster-node-timeout is {timeout:g} s: the names of a node that dies are served again "
        f"after up to {away:g} s, and leases with a shorter ttl than that are lost"
    )
    if away >= DEFAULT_TTL:
        remedy = f"a ttl well above {away:g} s (the default is {DEFAULT_TTL:g}), or a lower timeout"
        yield Finding.warning("failover", sentence, remedy)
    else:
        yield Finding.ok("failover", sentence)


def slot_findings(found: Coverage) -> Iterator[Finding]:
    """Yield the findings about slots without a node, whose names cannot be locked."""
    if found.unserved:
        yield Finding.error(
            "slots",
            f"no node serves {spans(found.unserved)}: names there cannot be locked, and with "
            "cluster-require-full-coverage yes no name can",
            "redis-cli --cluster fix HOST:PORT, or CLUSTER ADDSLOTSRANGE on the node that should "
            "serve them",
        )
    if found.unnamed:
        yield Finding.error(
            "slots", f"{spans(found.unnamed)}: {UNNAMED}; names there cannot be locked", NAME_THEM
        )
    if not found.unserved and not found.unnamed:
        yield Finding.ok("slots", f"all {SLOTS} slots have a node")


def merged(found: Mapping[str, Sequence[Finding]]) -> list[Finding]:
    """Return the findings of all nodes by subject; equal findings are merged into one."""
    nodes_by_finding: dict[Finding, list[str]] = {}
    for node, findings in found.items():
        for one in findings:
            nodes_by_finding.setdefault(one, []).append(node)
    subjects = list(dict.fromkeys(one.subject for one in nodes_by_finding))
    said = [
        replace(one, message=f"{_together(nodes, of=len(found))}: {one.message}")
        for one, nodes in nodes_by_finding.items()
    ]
    return sorted(said, key=lambda one: subjects.index(one.subject))


def _together(nodes: list[str], *, of: int) -> str:
    return f"all {of} masters" if len(nodes) == of > 1 else ", ".join(nodes)


# Findings about one server, from what it says about itself. No I/O.

OLDEST_SERVER = (7, 0)
NEARLY_FULL_FRACTION = 0.9
REPLICA_LAG_SECONDS = 5
"""Replicas acknowledge their data every second, so a replica that is silent for this many seconds
is behind."""

CLOCK_SKEW_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The facts read from a server; a fact that this user may not read is None.

    `ahead` is the least number of seconds by which the server's clock is ahead of ours. `allowed`
    maps each command that the server knows to whether the user may run it, or is a sentence that
    says why this is unknown. A node of a cluster has no `where`, because `merged` names it.
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
    """The commands that a user needs; None means the commands for a single Redis."""


def findings(facts: ServerFacts) -> list[Finding]:
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


def _server(facts: ServerFacts) -> Iterator[Finding]:
    info = facts.info or {}
    if not info:
        yield Finding.ok("server", f"{facts.where} answers".strip())
        return
    kind = "Valkey" if "valkey_version" in info else "Redis"
    version = info.get("valkey_version") or info.get("redis_version", "?")
    parts = tuple(int(one) for one in re.findall(r"\d+", version)[:2])
    what = f"{facts.where} is {kind} {version}" if facts.where else f"{kind} {version}"
    if kind == "Redis" and parts < OLDEST_SERVER:
        yield Finding.error(
            "server",
            f"{what}, which cannot run Lockfast's scripts",
            "Redis 7.0 or newer, or Valkey, is needed",
        )
    else:
        yield Finding.ok("server", what)


def _memory(info: Mapping[str, str]) -> Iterator[Finding]:
    if "maxmemory" not in info:
        return
    most, policy = int(info["maxmemory"]), info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction" and most:
        yield Finding.error(
            "eviction",
            f"maxmemory-policy is {policy}: when memory is short, the server deletes locks that "
            "are held, and tokens",
            "CONFIG SET maxmemory-policy noeviction, or a server of their own for the locks",
        )
    elif policy != "noeviction":
        yield Finding.note(
            "eviction",
            f"maxmemory-policy is {policy}; it does no harm while there is no maxmemory",
            "CONFIG SET maxmemory-policy noeviction",
        )
    else:
        yield Finding.ok("eviction", "nothing is evicted (noeviction)")
    if not most:
        return
    used = int(info.get("used_memory", "0")) - int(info.get("mem_not_counted_for_evict", "0"))
    share = f"{used * 100 // most} % of maxmemory is used"
    if used >= most:
        yield Finding.error(
            "memory",
            f"{share}: nothing new can be locked; what is held is still renewed",
            "raise maxmemory, or delete other data",
        )
    elif used >= NEARLY_FULL_FRACTION * most:
        yield Finding.warning(
            "memory",
            f"{share}: soon nothing new can be locked",
            "raise maxmemory, or delete other data",
        )
    else:
        yield Finding.ok("memory", share)


def _persistence(facts: ServerFacts) -> Iterator[Finding]:
    if facts.info is None:
        return
    settings = facts.settings or {}
    if facts.info.get("aof_enabled") == "1":
        fsync = settings.get("appendfsync")
        if fsync == "always":
            yield Finding.ok("persistence", "every grant is on disk before it counts")
            return
        window = {"everysec": "the last second", "no": "what the kernel had not yet written"}
        yield Finding.note(
            "persistence",
            f"a power cut may lose {window.get(fsync or '', 'the last grants')} "
            f"(appendfsync {fsync or 'cannot be read'}); a killed server loses nothing",
            "appendfsync always, if a lock must outlive a power cut; it costs speed",
        )
    elif settings.get("save"):
        yield Finding.warning(
            "persistence",
            "snapshots only: a restart brings back old locks and forgets new ones, so two "
            "processes may both believe they hold one until the first is told",
            "appendonly yes",
        )
    else:
        yield Finding.warning(
            "persistence",
            "no append-only file: a restart forgets every lock, so two processes may both "
            "believe they hold one until the first is told; tokens still grow, by the server's "
            "clock",
            "appendonly yes",
        )


def _replicas(facts: ServerFacts) -> Iterator[Finding]:
    info = facts.info or {}
    if info.get("role") == "slave":
        yield Finding.error(
            "replicas",
            f"{facts.where} is a replica, and locks are kept on its master",
            f"give the master's address: {info.get('master_host')}:{info.get('master_port')}",
        )
        return
    replicas = [_replica(info[f"slave{n}"]) for n in range(_number(info, "connected_slaves"))]
    needed = _number(facts.settings or {}, "min-replicas-to-write")
    lag = _number(facts.settings or {}, "min-replicas-max-lag") or REPLICA_LAG_SECONDS
    good = [one for one in replicas if one.get("state") == "online" and int(one["lag"]) <= lag]
    if needed > len(good):
        yield Finding.error(
            "replicas",
            f"{len(good)} of the {needed} replicas that min-replicas-to-write asks for are there: "
            "nothing can be locked",
            "bring the replicas back, or lower min-replicas-to-write",
        )
        return
    for one in replicas:
        if one not in good:
            address = f"{one.get('ip')}:{one.get('port')}"
            yield Finding.warning(
                "replicas",
                f"the replica {address} is {one.get('state')} and {one.get('lag')} s behind: "
                "should it become the master, it does not know the latest locks",
                "see its log, and the way between the two",
            )
    if replicas and facts.settings is not None and not needed:
        yield Finding.note(
            "replicas",
            "a failover may lose locks that were just granted: the server does not wait for its "
            f"{len(replicas)} replica(s)",
            "min-replicas-to-write 1 keeps that time short; the token is what makes it safe",
        )
    elif good:
        yield Finding.ok("replicas", f"{len(good)} replica(s), {needed} needed to write")


def _durability(facts: ServerFacts) -> Iterator[Finding]:
    info = facts.info or {}
    if facts.durability == "replica" and info.get("connected_slaves") == "0":
        yield Finding.error(
            "durability",
            "durability='replica' is asked for, and there is no replica: nothing can be locked",
            "start a replica, or leave durability out",
        )
    elif facts.durability == "fsync" and (
        info.get("aof_enabled") == "0"
        or (not isinstance(facts.allowed, str) and "WAITAOF" not in facts.allowed)
    ):
        yield Finding.error(
            "durability",
            "durability='fsync' is asked for, and this server cannot say what is on its disk: "
            "nothing can be locked",
            "Redis 7.2 or newer, or Valkey, with appendonly yes; or leave durability out",
        )
    elif facts.durability is not None:
        nodes_by_finding = "a replica" if facts.durability == "replica" else "its disk"
        yield Finding.ok("durability", f"a grant counts when {nodes_by_finding} has it")


def _replica(text: str) -> dict[str, str]:
    return {"lag": "0", **dict(one.split("=", 1) for one in text.split(",") if "=" in one)}


def _number(values: Mapping[str, str], name: str) -> int:
    return int(values.get(name) or 0)


def _clock(ahead: float | None) -> Iterator[Finding]:
    if ahead is None:
        return
    if abs(ahead) <= CLOCK_SKEW_SECONDS:
        yield Finding.ok("clock", "the server's clock agrees with ours")
        return
    yield Finding.warning(
        "clock",
        f"the server's clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} ours: "
        "tokens are made of it, so putting it right while data is lost could let them go back",
        "let both run ntp; put a clock right slowly, not by a jump",
    )


def _permissions(facts: ServerFacts) -> Iterator[Finding]:
    needed = facts.needed or acl.commands(is_cluster=facts.is_node, durability=facts.durability)
    rules = acl.smallest(facts.namespace, needed)
    if isinstance(facts.allowed, str):
        yield Finding.error("permissions", facts.allowed, f"ACL SETUSER <user> {rules}")
        return
    missing = [one for one in needed if not facts.allowed.get(one, True)]
    if missing:
        yield Finding.error(
            "permissions",
            f"this user may not run {', '.join(missing)} on {facts.namespace}:* "
            f"and the channels {facts.namespace}:inbox:*",
            f"ACL SETUSER <user> {rules}",
        )
        return
    too_wide = [one for one in acl.TOO_WIDE if facts.allowed[one]]
    if too_wide:
        yield Finding.note(
            "permissions",
            f"this user may do more than locks need, such as {', '.join(too_wide)}",
            f"ACL SETUSER <user> {rules}",
        )
    else:
        yield Finding.ok("permissions", "all that is needed, and little else")


def _unread(facts: ServerFacts) -> Iterator[Finding]:
    unread = [
        name
        for name, value in (("INFO", facts.info), ("CONFIG GET", facts.settings))
        if value is None
    ]
    if unread:
        yield Finding.note(
            "settings",
            f"{' and '.join(unread)} may not be run here, so this is not the whole picture",
            "look at maxmemory-policy, appendonly and min-replicas-to-write by other means",
        )


# Findings about the Sentinels: which failovers locks can survive. No I/O.

SENTINELS_MIN = 3
"""A failover needs a majority of all Sentinels, which two Sentinels are only if neither is missing.
"""


def sentinel_findings(views: Mapping[Endpoint, SentinelReply], service: str) -> Iterator[Finding]:
    """Yield what an operator should know about the Sentinels."""
    answers = list(views.values())
    for endpoint, answer in views.items():
        if isinstance(answer, LockError):
            yield Finding.warning(
                "sentinels",
                f"{endpoint} does not answer: {answer}",
                "start it, or take it out of the URL",
            )
        elif service not in answer:
            yield Finding.warning(
                "sentinels",
                f"{endpoint} does not watch {service}",
                "SENTINEL MONITOR on it, or take it out of the URL",
            )
    known = [one for one in answers if not isinstance(one, LockError)]
    states = [one[service] for one in known if service in one]
    if not states:
        return
    count = max(one.sentinels for one in states)
    quorum = max(one.quorum for one in states)
    yield _sentinel_count_finding(count, quorum)
    if quorum < 2 < count:  # noqa: PLR2004 - one Sentinel decides alone, though there are others
        yield Finding.note(
            "quorum",
            "the quorum is 1: a single Sentinel that loses sight of the master begins a failover, "
            "though it may be well",
            f"SENTINEL SET {service} quorum {count // 2 + 1}, on every Sentinel",
        )
    masters = {found.endpoint for one in answers if (found := named(one, service)) is not None}
    if len(masters) > 1:
        yield Finding.warning(
            "sentinels",
            f"they do not agree who is the master: {', '.join(sorted(map(str, masters)))}",
            "it passes within seconds after a failover; if it does not, see the way between them",
        )


def _sentinel_count_finding(count: int, quorum: int) -> Finding:
    if quorum > count:
        return Finding.error(
            "quorum",
            f"the quorum is {quorum}, and there are {count} Sentinels: they never agree on a "
            "failover, so a master that dies is not replaced",
            "lower the quorum (SENTINEL SET), or start more Sentinels",
        )
    if count < SENTINELS_MIN:
        return Finding.warning(
            "sentinels",
            f"there are {count}: if one fails, the rest are no majority, and a master that dies is "
            "not replaced",
            "three Sentinels or more, on machines of their own",
        )
    return Finding.ok("sentinels", f"{count}, of whom {quorum} must agree that the master fails")
