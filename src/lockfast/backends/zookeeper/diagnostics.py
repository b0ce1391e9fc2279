"""What an ensemble's members report, and what that means for locks on the ensemble; pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockfast.model import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lockfast.backends.zookeeper.four_letter_words import EnsembleMember

OUTSTANDING_MAX = 100
"""A member with at least this many queued requests is considered unable to keep up."""

READ_PERMISSION = 1


@dataclass(frozen=True, slots=True)
class EnsembleFacts:
    """The facts that could be read; `acl` is our top node's, or the ACL to create it with."""

    where: str
    root: str
    members: Sequence[EnsembleMember]
    asked: float
    granted: float
    acl: Sequence[Any] | None


def findings(facts: EnsembleFacts) -> list[Finding]:
    """Return what an operator should know."""
    return [
        *_server(facts),
        _ensemble(facts),
        _timeout(facts),
        *_outstanding(facts),
        _acl(facts),
        *_unread(facts),
    ]


def _server(facts: EnsembleFacts) -> Iterator[Finding]:
    for one in facts.members:
        version = one.value("srvr", "Zookeeper version")
        if version is not None:
            number = version.partition("-")[0]
            yield Finding.ok("server", f"{facts.where} is ZooKeeper {number}")
            return
    yield Finding.ok("server", f"{facts.where} answers")


def _ensemble(facts: EnsembleFacts) -> Finding:
    members = facts.members
    silent = [one.address for one in members if "srvr" in one.said and not one.is_serving]
    known = max((one.members for one in members), default=0)
    size = max(known, len(members))
    if silent:
        return Finding.warning(
            "ensemble",
            f"{', '.join(silent)} does not serve: of {size} members "
            f"{size - len(silent)} are left, and {size // 2 + 1} are needed",
            "bring it back; see its log, and the way to it",
        )
    is_alone = any(one.value("srvr", "Mode") == "standalone" for one in members)
    if is_alone or size == 1:
        return Finding.warning(
            "ensemble",
            "one server alone: when it is down nothing can be locked, and what is held is lost",
            "an ensemble of three members bears the loss of one",
        )
    spare = (size - 1) // 2
    if known > len(members):
        return Finding.note(
            "ensemble",
            f"the URL names {len(members)} of {known} members: when those are down, so are we",
            "name all members in the URL",
        )
    if not spare:
        return Finding.warning(
            "ensemble",
            f"{size} members bear the loss of none, as each needs the other",
            "three members bear the loss of one",
        )
    if size % 2 == 0:
        return Finding.note(
            "ensemble",
            f"{size} members bear the loss of {spare}, no more than {size - 1} would",
            "an odd number of members",
        )
    return Finding.ok("ensemble", f"{size} members, all serve; the loss of {spare} is borne")


def _timeout(facts: EnsembleFacts) -> Finding:
    asked, granted = facts.asked, facts.granted
    ticks = [int(found) / 1000 for one in facts.members if (found := one.value("conf", "tickTime"))]
    shortest = 2 * max(ticks, default=0.0)
    if granted < shortest:
        # The leader learns of a session's activity every half tick; see `sessions/keepalive.py`.
        return Finding.warning(
            "session timeout",
            f"{granted:g} s is less than two ticks of the server: a holder that is cut from the "
            "leader may be told too late",
            f"ttl={shortest:g} or more, and a minSessionTimeout that lets nobody have less",
        )
    if abs(asked - granted) < 0.001:  # noqa: PLR2004 - a millisecond, the server's unit
        return Finding.ok("session timeout", f"{granted:g} s, as asked for")
    accepts = ""
    for one in facts.members:
        low, high = one.value("conf", "minSessionTimeout"), one.value("conf", "maxSessionTimeout")
        if low and high:
            accepts = f"; it accepts {int(low) / 1000:g} to {int(high) / 1000:g} s"
    return Finding.warning(
        "session timeout",
        f"asked for {asked:g} s, and the server granted {granted:g} s{accepts}: that is the ttl of "
        "every lease",
        "set minSessionTimeout and maxSessionTimeout of every member, or ask for what it grants "
        f"(ttl={granted:g})",
    )


def _outstanding(facts: EnsembleFacts) -> Iterator[Finding]:
    waiting = [
        (int(found), one.address)
        for one in facts.members
        if (found := one.value("srvr", "Outstanding")) is not None
    ]
    if not waiting:
        return
    most, address = max(waiting)
    if most < OUTSTANDING_MAX:
        yield Finding.ok("outstanding requests", f"{most} at most; the members keep up")
        return
    yield Finding.warning(
        "outstanding requests",
        f"{most} requests wait in {address}: it cannot keep up, and heartbeats wait with them",
        "see its disk and the followers; a disk of its own for dataLogDir, or fewer clients",
    )


def _acl(facts: EnsembleFacts) -> Finding:
    if facts.acl is None:
        return Finding.note(
            "acl",
            f"the ACL of {facts.root} may not be read by us",
            f"look at it by other means (getAcl {facts.root})",
        )
    is_open = any(one.id.scheme == "world" and one.perms & ~READ_PERMISSION for one in facts.acl)
    if not is_open:
        return Finding.ok("acl", f"{facts.root} is closed to strangers")
    return Finding.warning(
        "acl",
        f"everybody who reaches the ensemble may delete what is below {facts.root}, locks that are "
        "held too",
        f"give credentials (zookeeper://user:password@host), and setAcl {facts.root} for them",
    )


def _unread(facts: EnsembleFacts) -> Iterator[Finding]:
    missing = [
        word for word in ("srvr", "conf") if not any(one.said.get(word) for one in facts.members)
    ]
    if missing:
        yield Finding.note(
            "four-letter words",
            f"{' and '.join(missing)} is not answered, so this is not the whole picture",
            "4lw.commands.whitelist=srvr,conf in zoo.cfg of every member",
        )
