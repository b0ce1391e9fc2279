"""The broken locks: the flaw of each lock, the schedule that finds it, and how to fix it.

The tests, `make challenge` and the documentation read this list and no other. One of the ten locks
has three flaws, and the challenge must find each of the three.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockfast_challenge.outcome import Kind

LOCKS = "lockfast_challenge.broken.locks"

SINGLE_SERVER = f"{LOCKS}:SingleServer"
ACKNOWLEDGED = f"{LOCKS}:Acknowledged"
PATIENT_REDLOCK = f"{LOCKS}:PatientRedlock"


@dataclass(frozen=True, slots=True)
class Schedule:
    """The run that finds a flaw."""

    faults: tuple[str, ...] = ()
    """The faults that strike in turn; empty for a flaw that shows without faults."""
    store: str = "redis"
    """Which servers are started: "redis", "replicated" or "redlock"."""
    ttl: float = 0.5
    clients: int = 3
    workload: str = "lock"
    """What the clients do; in "long-lock", work may take longer than the ttl in every turn."""
    clocks_ahead: tuple[float, ...] = ()
    """How far ahead the wall clock of each client is, in seconds."""


@dataclass(frozen=True, slots=True)
class Flaw:
    """One flaw of one lock."""

    number: int
    """The number, from 1 to 10, of the lock that has the flaw."""
    name: str
    lock: str
    """The class, as "module:name"."""
    flaw: str
    """The flaw in one sentence."""
    fix: str
    kind: Kind
    """The kind of finding that the challenge must report."""
    schedule: Schedule
    control: str = SINGLE_SERVER
    """The correct lock, in which the same schedule must find nothing wrong."""


FLAWS = (
    Flaw(
        number=1,
        name="setnx-then-expire",
        lock=f"{LOCKS}:SetnxThenExpire",
        flaw="Whoever dies or is cut off between the two requests leaves a lock that never ends.",
        fix="Take the lock and give it its end in one request: `SET name value NX PX ttl`.",
        kind="stall",
        schedule=Schedule(faults=("asker-replies-cut",)),
    ),
    Flaw(
        number=2,
        name="clocks-apart",
        lock=f"{LOCKS}:DateAsValue",
        flaw="To a client whose clock is ahead, every lock has ended already.",
        fix="Let one clock decide when a lock has ended, and let that be the server's.",
        kind="overlap",
        schedule=Schedule(clocks_ahead=(0.0, 5.0)),
    ),
    Flaw(
        number=2,
        name="date-overwritten",
        lock=f"{LOCKS}:DateAsValue",
        flaw="Whoever is too late to take the lock over has by then replaced the winner's date.",
        fix="Whoever does not get the lock must change nothing: `SET … NX` does not.",
        kind="overlap",
        schedule=Schedule(faults=("far-apart",), clients=5, workload="long-lock"),
    ),
    Flaw(
        number=2,
        name="anybody-unlocks",
        lock=f"{LOCKS}:DateAsValue",
        flaw="The value says when the lock ends and not whose it is, so anybody may delete it.",
        fix="Store a value that nobody else has; compare it and delete it in one script.",
        kind="overlap",
        schedule=Schedule(faults=("holder-requests-held",), clients=5),
    ),
    Flaw(
        number=3,
        name="bare-delete",
        lock=f"{LOCKS}:BareDelete",
        flaw="A release that comes too late deletes the lock of the next holder.",
        fix="Store a value that nobody else has; compare it and delete it in one script.",
        kind="overlap",
        schedule=Schedule(faults=("holder-requests-held", "holder-frozen")),
    ),
    Flaw(
        number=4,
        name="compare-then-delete",
        lock=f"{LOCKS}:CompareThenDelete",
        flaw="Between the look and the deletion the lock may end, and be the next holder's.",
        fix="Compare and delete in one step at the server, which is a script.",
        kind="overlap",
        schedule=Schedule(faults=("holder-replies-held",), clients=5),
    ),
    Flaw(
        number=5,
        name="never-renewed",
        lock=f"{LOCKS}:NeverRenewed",
        flaw="The work takes longer than the lock lasts, and nothing tells the worker.",
        fix="Renew the lease while the work goes on; count locally until when it may be trusted.",
        kind="overlap",
        schedule=Schedule(),
    ),
    Flaw(
        number=6,
        name="trusted-failover",
        lock=f"{LOCKS}:TrustedFailover",
        flaw="A replica is promoted that the master had not yet told of the lock.",
        fix="Hold nothing that the replica has not acknowledged; let the resource check a token.",
        kind="overlap",
        schedule=Schedule(faults=("failover-lossy",), store="replicated", workload="long-lock"),
        control=ACKNOWLEDGED,
    ),
    Flaw(
        number=7,
        name="counted-token",
        lock=f"{LOCKS}:CountedToken",
        flaw="A replica is promoted that has not heard of the last tokens, and gives them again.",
        fix="Let the token be the larger of the last one plus one and the server's clock.",
        kind="token",
        schedule=Schedule(faults=("failover-lossy",), store="replicated"),
        control=ACKNOWLEDGED,
    ),
    Flaw(
        number=8,
        name="resurrecting-watchdog",
        lock=f"{LOCKS}:ResurrectingWatchdog",
        flaw="A lock that had ended is taken anew and called renewed; others held it in between.",
        fix="A lease that has ended is lost for good: tell the holder, and do not take it anew.",
        kind="overlap",
        schedule=Schedule(faults=("holder-frozen",), clients=2),
    ),
    Flaw(
        number=9,
        name="forgetful-redlock",
        lock=f"{LOCKS}:ForgetfulRedlock",
        flaw="Nodes that restart empty give their votes a second time.",
        fix="A node that may have forgotten does not vote until all that it knew has ended.",
        kind="overlap",
        schedule=Schedule(
            faults=("nodes-restart-empty",), store="redlock", ttl=0.8, workload="long-lock"
        ),
        control=PATIENT_REDLOCK,
    ),
    Flaw(
        number=10,
        name="unchecked-acquire",
        lock=f"{LOCKS}:UncheckedAcquire",
        flaw="Acquire says no, nobody listens, and the work is done all the same.",
        fix="Let an acquire that did not acquire raise: only what is returned can be ignored.",
        kind="overlap",
        schedule=Schedule(),
    ),
)
