"""Start a run from the command-line options, and show its progress."""

from __future__ import annotations

import difflib
import ipaddress
import shutil
import signal
import socket
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lockfast import BackendUnavailable, ConfigurationError, Locks
from lockfast.cli.store import opened
from lockfast.cli.text import CLEAR_LINE, is_live_terminal
from lockfast.core.descriptor import hosts_in, split
from lockfast.errors import pip_install
from lockfast.model import printable
from lockfast.observe.figures import duration
from lockfast_challenge.clients.fleet import Fleet
from lockfast_challenge.clients.process import ClientFailed
from lockfast_challenge.deployments.catalog import example_url, given, longest_lease, own_servers
from lockfast_challenge.faults.schedule import all_faults
from lockfast_challenge.outcome import MIXED, MIXED_NAME, WORKLOADS, Setting
from lockfast_challenge.report.wording import many
from lockfast_challenge.runs.run import LOCKFAST, Enough, NothingStarted, run
from lockfast_challenge.servers.server import CannotStart

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Self, TextIO

    from lockfast.model import Capabilities
    from lockfast_challenge.broken.registry import Flaw
    from lockfast_challenge.cli.command import Stopping
    from lockfast_challenge.cli.lock_class import LockClass
    from lockfast_challenge.clients.fork_server import Order
    from lockfast_challenge.faults.fault import Deployment, Fault
    from lockfast_challenge.outcome import Outcome, Workload
    from lockfast_challenge.runs.run import RunProgress


# Progress: a single line that is rewritten on a terminal, a new line now and then in a pipe.

PROGRESS_SECONDS = 10.0
"""Interval between progress lines where the output is not a terminal, in seconds."""
FROM_THE_RUN = {"starting", "quiet", "ending"}


class ProgressDisplay:
    """Shows progress on stderr; a line that is rewritten in place is erased at the end."""

    def __init__(self, *, seconds: float, stream: TextIO | None = None) -> None:
        self._seconds = seconds
        self._stream = sys.stderr if stream is None else stream
        self._is_live = is_live_terminal() if stream is None else False
        self._next = 0.0
        self._wrong: frozenset[str] = frozenset()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_live:
            self._write(CLEAR_LINE)

    def say(self, text: str) -> None:
        """Show the text of a step that has no figures yet."""
        self._write(f"{CLEAR_LINE}{text}" if self._is_live else f"lockfast: {text}\n")

    def __call__(self, now: RunProgress) -> None:
        """Show the progress; in a pipe, only at intervals and for a new kind of finding."""
        text = progress_sentence(now, seconds=self._seconds)
        if self._is_live:
            # Truncate the text instead of wrapping it, because only one line can be erased.
            self._write(CLEAR_LINE + text[: shutil.get_terminal_size().columns - 1])
        elif now.seconds >= self._next or not now.wrong <= self._wrong:
            self._next = now.seconds + PROGRESS_SECONDS
            self._wrong = frozenset(now.wrong)
            self._write(f"lockfast: {text}\n")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def progress_sentence(now: RunProgress, *, seconds: float) -> str:
    """Return a sentence with the time left, findings and grants so far, and the current fault."""
    left = seconds - now.seconds
    time_left = f"{duration(left)} left" if left >= 1 else "nearly done"
    doing = now.doing if now.doing in FROM_THE_RUN else f"fault {printable(now.doing)}"
    wrong = f"found: {', '.join(sorted(now.wrong))}" if now.wrong else "nothing wrong"
    return f"{time_left}, {wrong}, {many(now.grants, 'grant')}; {doing}"


# Which faults a challenge may make, and on which servers.

NOT_ALLOWED = (
    "it would strike servers that others may use, which are not on this machine: "
    "add --yes-break-it if nobody needs them"
)


def allowed(
    there: Mapping[str, Fault], asked: Sequence[str], *, may_break: bool
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the kinds to run, and the kinds that must not run, each with the reason.

    It is an error to request a kind by name that must not run, and to request only kinds that
    cannot be made here. Without a request, kinds that must not run are left out and returned with
    the reason.
    """
    for kind in asked:
        if kind not in there:
            raise ConfigurationError(f"there is no fault {kind!r} here; {_hint(kind, there)}")
        if there[kind].is_destructive and not may_break:
            raise ConfigurationError(f"the fault {kind!r} was not made: {NOT_ALLOWED}")
    if asked and all(there[kind].lacks for kind in asked):
        reasons = "; ".join(f"{kind}: {there[kind].lacks}" for kind in asked)
        raise ConfigurationError(f"no fault that was asked for can be made here: {reasons}")
    if asked:
        return tuple(dict.fromkeys(asked)), {}
    barred = {
        kind: NOT_ALLOWED for kind, fault in there.items() if fault.is_destructive and not may_break
    }
    return tuple(kind for kind in there if kind not in barred), barred


def _hint(kind: str, there: Mapping[str, Fault]) -> str:
    close = difflib.get_close_matches(kind, there, n=3)
    if close:
        return "did you mean " + ", ".join(map(repr, close)) + "?"
    return "there are: " + ", ".join(sorted(there))


def is_here(url: str) -> bool:
    """Return whether all servers that the URL names are on this machine."""
    places = split(url).netloc.rpartition("@")[2]
    if not places:
        return True  # the URL names a file or a local socket
    return all(_is_loopback(host) for host, _ in hosts_in(places, port=1, where="the URL"))


def _is_loopback(host: str) -> bool:
    """Return whether all addresses of this host are loopback; False for an unknown host."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(ipaddress.ip_address(address[0]).is_loopback for *_, address in found)


# One run, from the request to the outcome: its servers, clients and faults.

NAMESPACE = "lockfast-challenge"


@dataclass(frozen=True, slots=True)
class ChallengeRequest:
    """The request from the command line; without a URL, servers of the store are started."""

    url: str | None
    start: str
    workload: str | None
    """None for a mixture of all that the store offers."""
    clients: int
    """How many clients contend for each name."""
    names: int
    seed: int
    seconds: float
    ttl: float
    faults: tuple[str, ...]
    """Kinds of fault; empty for all that can be made."""
    may_break: bool
    flaw: Flaw | None = None
    """The flaw of the broken lock to run, on the schedule that finds it; None if none is run."""
    lock: LockClass | None = None
    """The user's own lock to run; None to run Lockfast, or a broken lock."""

    @property
    def lock_name(self) -> str:
        """The name of the lock in the setting of the run."""
        if self.lock is not None:
            return self.lock.dotted
        return "lockfast" if self.flaw is None else self.flaw.name

    @property
    def makes(self) -> str | tuple[str, ...]:
        """The contender classes of the run."""
        if self.lock is not None:
            return self.lock.dotted
        return LOCKFAST if self.flaw is None else self.flaw.lock

    def mixture(self, url: str) -> tuple[str, ...]:
        """Return the workloads of a mixture that the lock offers; empty if one was requested."""
        if self.workload:
            return ()
        return mixed_workloads(url, ttl=self.ttl) if self.lock is None else self.lock.workloads


def as_scheduled(request: ChallengeRequest, flaw: Flaw) -> ChallengeRequest:
    """Return the request with this flaw's schedule; its seed and time stay the same."""
    schedule = flaw.schedule
    return replace(
        request,
        start=schedule.store,
        workload=schedule.workload,
        clients=schedule.clients,
        names=1,
        ttl=schedule.ttl,
        faults=schedule.faults,
        flaw=flaw,
    )


# Which workloads the store offers. The URL alone shows that, without a server.

SHARED_LOCKS = {"read-write": "read-write locks", "semaphore": "semaphores"}
"""The kinds of workload that need a lock with several holders, with the name of that lock."""


def mixed_workloads(url: str, *, ttl: float) -> tuple[str, ...]:
    """Return the workloads of a mixture that the store at this URL offers."""
    missing = _missing_by_workload(url, ttl)
    return tuple(one for one in MIXED if not missing[one])


def check_workload(request: ChallengeRequest) -> None:
    """Raise ConfigurationError if the workload is not offered; connect to nothing.

    What is offered depends on the user's own lock, or else on the store.
    """
    if request.flaw is not None:
        return
    if request.lock is not None:
        request.lock.check_workload(request.workload)
        return
    url = example_url(request.start, ttl=request.ttl) if request.url is None else request.url
    missing = _missing_by_workload(url, request.ttl)
    offered = ", ".join(name for name, lacks in missing.items() if not lacks)
    store = request.start or url.partition(":")[0]
    if request.workload is not None and missing[request.workload]:
        raise ConfigurationError(
            f"--workload {request.workload} cannot be run: {store} has no "
            f"{missing[request.workload]}; it offers {offered or 'none with this --ttl'}"
        )
    if not offered:
        raise ConfigurationError(f"{store} has no {missing['lock']}: choose a shorter --ttl")


def _missing_by_workload(url: str, ttl: float) -> dict[str, str]:
    """Return what the store lacks for each workload; empty for a workload that it offers."""
    with Locks(url) as locks:
        can = locks.capabilities
    longest = longest_lease(url)
    return {name: _missing(one, can, one.lease * ttl, longest) for name, one in WORKLOADS.items()}


def _missing(workload: Workload, can: Capabilities, lease: float, longest: float) -> str:
    if workload.kind in SHARED_LOCKS and not can.shared:
        return SHARED_LOCKS[workload.kind]
    if workload.is_guarded and not can.has_tokens:
        return "tokens, which the resource of this workload checks"
    if lease > longest:
        return f"leases of {lease:g} s (its max_ttl is {longest:g} s)"
    return ""


def played(
    request: ChallengeRequest, *, folder: Path | None, display: ProgressDisplay, end: Stopping
) -> Outcome:
    """Run the challenge and return the outcome, whose `not_made` says why faults were left out."""
    with ExitStack() as stack:
        deployment = stack.enter_context(_deployment(request, display))
        kept = folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        faults, barred = request.faults, dict[str, str]()
        if request.flaw is None:
            faults, barred = allowed(
                all_faults(Fleet(0, kept, _no_clients), deployment),
                request.faults,
                may_break=request.url is None or _may_break(request, request.url),
            )
        if request.url is not None:
            _check_reachable(request.url, display)
        setting = Setting(
            store=deployment.store,
            lock=request.lock_name,
            workload=request.workload or MIXED_NAME,
            clients=request.clients,
            names=request.names,
            workloads=request.mixture(deployment.url),
            seed=request.seed,
            seconds=request.seconds,
            ttl=request.ttl,
            faults=faults,
            are_named=request.flaw is None and bool(request.faults),
        )

        def tell(now: RunProgress) -> None:
            display(now)
            if end.by is not None and now.doing != "ending":
                raise Enough(signal.Signals(end.by).name)

        try:
            with end.held_back():
                outcome = run(
                    setting,
                    deployment,
                    folder=kept,
                    make=request.makes,
                    progress=tell,
                    stops_at_first=request.flaw is not None,
                    clocks_ahead=() if request.flaw is None else request.flaw.schedule.clocks_ahead,
                )
        except (ClientFailed, NothingStarted) as error:
            if request.lock is not None:
                # Of a traceback, the last line says what to do.
                reason = str(error).strip().splitlines()[-1]
                raise ConfigurationError(
                    f"--lock {request.lock.dotted}: a client could not begin: {reason}"
                ) from error
            raise BackendUnavailable(str(error)) from error
        outcome.not_made |= barred
        return outcome


def _may_break(request: ChallengeRequest, url: str) -> bool:
    return request.may_break or is_here(url)


@contextmanager
def _deployment(request: ChallengeRequest, display: ProgressDisplay) -> Iterator[Deployment]:
    try:
        if request.url is None:
            check_workload(request)
            display.say(f"starting {request.start}")
        if request.flaw is not None:
            made: AbstractContextManager[Deployment] = _servers_for(request.flaw)
        elif request.url is None:
            made = own_servers(request.start, ttl=request.ttl)
        else:
            may_break = _may_break(request, request.url)
            made = given(request.url, ttl=request.ttl, may_break=may_break)
            check_workload(request)
        with made as deployment:
            yield deployment
    except CannotStart as error:
        raise ConfigurationError(str(error)) from error


def _servers_for(flaw: Flaw) -> AbstractContextManager[Deployment]:
    try:
        from lockfast_challenge.broken.catching import DEPLOYMENTS  # noqa: PLC0415 - needs a driver
    except ImportError as error:
        raise CannotStart(
            f"the broken locks are kept in Redis, whose driver cannot be loaded ({error}): "
            f"{pip_install('challenge')}"
        ) from error
    return DEPLOYMENTS[flaw.schedule.store](ttl=flaw.schedule.ttl)


def _check_reachable(url: str, display: ProgressDisplay) -> None:
    """Query the store once, so that an outage is reported here and not by every client."""
    display.say("looking at the store")
    with opened(url, namespace=NAMESPACE) as locks:
        locks.inspect("challenge")


def _no_clients(*_: object) -> Order:
    raise AssertionError("clients that are only asked by what they can be struck")
