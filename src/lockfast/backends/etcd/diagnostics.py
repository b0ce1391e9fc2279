"""What a cluster's members report, and what locks on it can guarantee; pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockfast.backends.etcd.replies import CORRUPT, NOSPACE
from lockfast.model import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lockfast.backends.etcd.replies import Alarm, Member, State

FIXED_VERSIONS = {(3, 4): 32, (3, 5): 14}
"""First patch release, by minor version, in which a crash during a compaction cannot make revisions
go back (etcd-io/etcd#17780); newer minor versions never had this bug."""

ELECTIONS_PER_TTL = 5
"""Number of election timeouts that a ttl should outlast. An election alone takes up to four of
them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """Facts about a cluster; a fact is None if the server did not let us read it."""

    where: str
    states: Sequence[State | None]
    """The state of each member in the URL."""
    members: Sequence[Member] | None
    alarms: Sequence[Alarm] | None
    shortest: int | None
    """The shortest ttl that the cluster grants, which is one and a half election timeouts in whole
    seconds."""
    asked: float
    granted: float | None
    """The ttl of a session, if there is one."""
    user: str
    is_secure: bool
    root: str = ""
    """The prefix of all our keys."""
    is_permitted: bool = True
    """Whether this user may read and write our keys, as far as we could find out."""
    shared: int = 0
    """Number of addresses in the URL at which more than one member has answered."""


def findings(facts: ClusterFacts) -> list[Finding]:
    """Return what an operator should know."""
    return [
        _version(facts),
        _members(facts),
        *_space(facts),
        _ttl(facts),
        _access(facts),
    ]


def _version(facts: ClusterFacts) -> Finding:
    versions = sorted({one.version for one in facts.states if one is not None})
    if not versions:
        return Finding.error("server", f"no member of {facts.where} tells its version")
    old = [one for one in versions if _may_go_back(one)]
    if old:
        return Finding.warning(
            "server",
            f"etcd {', '.join(old)}: after a crash while it compacts, revisions may go back, and "
            "so may tokens",
            "upgrade to 3.4.32, 3.5.14 or newer",
        )
    return Finding.ok("server", f"{facts.where} is etcd {', '.join(versions)}")


def _may_go_back(version: str) -> bool:
    try:
        major, minor, patch = (int(one) for one in version.partition("-")[0].split("."))
    except ValueError:
        return False
    return patch < FIXED_VERSIONS.get((major, minor), 0) or (major, minor) < min(FIXED_VERSIONS)


def _members(facts: ClusterFacts) -> Finding:
    named = len(facts.states)
    silent = sum(one is None or not one.leader for one in facts.states)
    voting = [one for one in facts.members or () if not one.is_learner]
    size = len(voting) or named
    needed, spare = size // 2 + 1, (size - 1) // 2
    if facts.shared:
        return Finding.error(
            "members",
            f"several members answer at {facts.shared} of the {named} addresses in the URL, as "
            "behind a load balancer: leases cannot be proven there, and are lost",
            "name each member in the URL, by an address of its own",
        )
    if silent:
        return Finding.warning(
            "members",
            f"{silent} of the {named} members in the URL do not serve; of {size} in the cluster "
            f"{needed} are needed",
            "bring them back; see their logs, and the way to them",
        )
    if size == 1:
        return Finding.warning(
            "members",
            "one member alone: while it is down nothing can be locked, and what is held is lost",
            "a cluster of three bears the loss of one",
        )
    if named < size:
        return Finding.note(
            "members",
            f"{size} members, of which the URL names {named}: while those are down the others are "
            "not found",
            "name all of them in the URL",
        )
    return Finding.ok("members", f"{size} members serve; the loss of {spare} is borne")


def _space(facts: ClusterFacts) -> Iterator[Finding]:
    if facts.alarms is None:
        yield Finding.note("alarms", "this user may not ask for alarms")
        return
    kinds = {one.kind for one in facts.alarms}
    if NOSPACE in kinds:
        yield Finding.error(
            "alarms",
            "out of space (NOSPACE): nothing new can be locked; what is held is still renewed and "
            "released",
            "compact, defragment, raise --quota-backend-bytes, then `etcdctl alarm disarm`",
        )
    if CORRUPT in kinds:
        yield Finding.error("alarms", "members disagree about the data (CORRUPT)", "see their logs")
    if not kinds:
        yield Finding.ok("alarms", "no alarm is raised")


def _ttl(facts: ClusterFacts) -> Finding:
    granted = facts.granted
    if granted is None:
        granted = float(max(math.ceil(facts.asked), facts.shortest or 0))
    if granted != facts.asked:
        return Finding.note(
            "ttl",
            f"a ttl of {facts.asked:g} s was asked for, and {granted:g} s are granted: "
            "leases last whole seconds, and at least one and a half election timeouts",
            "a crash frees a name after up to twice that long",
        )
    if facts.shortest is None:
        return Finding.note("ttl", f"a lease lasts {granted:g} s")
    least = ELECTIONS_PER_TTL * facts.shortest / 1.5
    if granted < least:
        return Finding.warning(
            "ttl",
            f"a lease of {granted:g} s may not outlast an election: the election timeout "
            f"is up to {facts.shortest / 1.5:.1f} s",
            f"choose a ttl of {least:.0f} s or more",
        )
    return Finding.ok("ttl", f"a lease of {granted:g} s outlasts an election")


def _access(facts: ClusterFacts) -> Finding:
    if not facts.is_permitted:
        return Finding.error(
            "access",
            f"this user may not read and write all keys that begin with {facts.root}: it can lock "
            "nothing",
            f"etcdctl role grant-permission ROLE --prefix=true readwrite {facts.root}",
        )
    if facts.user:
        return Finding.ok("access", "a user and a password are asked for")
    if facts.is_secure:
        return Finding.note(
            "access", "TLS, and no user: any client with a certificate may use all keys"
        )
    return Finding.warning(
        "access",
        "neither TLS nor a user: whoever reaches it may end every lock",
        "let it know users (etcdctl auth enable), and speak TLS (etcds://)",
    )
