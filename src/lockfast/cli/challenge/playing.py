"""From what was asked for to what it came to: servers, clients and faults for one run."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lockfast import BackendUnavailable, ConfigurationError, Locks
from lockfast.challenge.clients.fleet import Fleet
from lockfast.challenge.clients.process import ClientFailed
from lockfast.challenge.deployments.choosing import given, own_servers
from lockfast.challenge.nemesis.choosing import all_faults
from lockfast.challenge.outcome import Setting
from lockfast.challenge.running import LOCKFAST, Enough, NothingStarted, run
from lockfast.challenge.servers.starting import CannotStart
from lockfast.cli.challenge.targets import allowed, is_here
from lockfast.cli.store import opened
from lockfast.errors import pip_install

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from lockfast.challenge.broken.registry import Flaw
    from lockfast.challenge.clients.order import Order
    from lockfast.challenge.fault import Deployment
    from lockfast.challenge.outcome import Outcome
    from lockfast.challenge.running import Progress
    from lockfast.cli.challenge.progress import Teller
    from lockfast.cli.challenge.stopping import Stopping


NAMESPACE = "lockfast-challenge"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for; without a URL, servers of a store are started."""

    url: str | None
    start: str
    workload: str | None
    """None for the usual one of the store."""
    clients: int
    seed: int
    seconds: float
    ttl: float
    faults: tuple[str, ...]
    """By their kinds; none means all that can be made."""
    may_break: bool
    flaw: Flaw | None = None
    """Of a broken lock, by whose schedule it is run; all else is then Lockfast's own."""


def as_scheduled(wanted: Wanted, flaw: Flaw) -> Wanted:
    """Return what finds the flaw of a broken lock; the seed and the time are as they were."""
    schedule = flaw.schedule
    return replace(
        wanted,
        start=schedule.store,
        workload=schedule.workload,
        clients=schedule.clients,
        ttl=schedule.ttl,
        faults=schedule.faults,
        flaw=flaw,
    )


def usual_workload(url: str) -> str:
    """Return what is tried where nobody says what: behind tokens, on a store that has them."""
    with Locks(url) as locks:
        return "guarded-counter" if locks.capabilities.has_tokens else "lock"


def played(wanted: Wanted, *, folder: Path | None, teller: Teller, end: Stopping) -> Outcome:
    """Run it, and return what it came to; what was left out is in `not_made`, with the reason."""
    with ExitStack() as stack:
        deployment = stack.enter_context(_deployment(wanted, teller))
        kept = folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        faults, barred = wanted.faults, dict[str, str]()
        if wanted.flaw is None:
            faults, barred = allowed(
                all_faults(Fleet(0, kept, _nobody), deployment),
                wanted.faults,
                may_break=wanted.url is None or _may_break(wanted, wanted.url),
            )
        if wanted.url is not None:
            _look_at(wanted.url, teller)
        setting = Setting(
            store=deployment.store,
            lock="lockfast" if wanted.flaw is None else wanted.flaw.name,
            workload=wanted.workload or usual_workload(deployment.url),
            clients=wanted.clients,
            seed=wanted.seed,
            seconds=wanted.seconds,
            ttl=wanted.ttl,
            faults=faults,
            are_named=wanted.flaw is None and bool(wanted.faults),
        )

        def tell(now: Progress) -> None:
            teller(now)
            if end.by is not None and now.doing != "ending":
                raise Enough

        try:
            with end.held_back():
                outcome = run(
                    setting,
                    deployment,
                    folder=kept,
                    make=LOCKFAST if wanted.flaw is None else wanted.flaw.lock,
                    progress=tell,
                    stops_at_first=wanted.flaw is not None,
                    clocks_ahead=() if wanted.flaw is None else wanted.flaw.schedule.clocks_ahead,
                )
        except (ClientFailed, NothingStarted) as error:
            raise BackendUnavailable(str(error)) from error
        outcome.not_made |= barred
        return outcome


def _may_break(wanted: Wanted, url: str) -> bool:
    return wanted.may_break or is_here(url)


@contextmanager
def _deployment(wanted: Wanted, teller: Teller) -> Iterator[Deployment]:
    try:
        if wanted.url is None:
            teller.say(f"starting {wanted.start}")
        if wanted.flaw is not None:
            made: AbstractContextManager[Deployment] = _servers_for(wanted.flaw)
        elif wanted.url is None:
            made = own_servers(wanted.start, ttl=wanted.ttl)
        else:
            may_break = _may_break(wanted, wanted.url)
            made = given(wanted.url, ttl=wanted.ttl, may_break=may_break)
        with made as deployment:
            yield deployment
    except CannotStart as error:
        raise ConfigurationError(str(error)) from error


def _servers_for(flaw: Flaw) -> AbstractContextManager[Deployment]:
    try:
        from lockfast.challenge.broken.catching import DEPLOYMENTS  # noqa: PLC0415 - needs a driver
    except ImportError as error:
        raise CannotStart(
            f"the broken locks are kept in Redis, whose driver cannot be loaded ({error}): "
            f"{pip_install('redis')}"
        ) from error
    return DEPLOYMENTS[flaw.schedule.store](ttl=flaw.schedule.ttl)


def _look_at(url: str, teller: Teller) -> None:
    """Ask it once: a store that is down is told here, and not by each client."""
    teller.say("looking at the store")
    with opened(url, namespace=NAMESPACE) as locks:
        locks.inspect("challenge")


def _nobody(*_: object) -> Order:
    raise AssertionError("clients that are only asked by what they can be struck")
