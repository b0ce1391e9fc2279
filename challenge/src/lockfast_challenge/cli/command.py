"""`lockfast challenge`: the command, replaying a run, and stopping early."""

from __future__ import annotations

import os
import random
import signal
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lockfast import ConfigurationError
from lockfast.cli.json_output import write_json
from lockfast.cli.output import screen
from lockfast.cli.store import CONTEXT, tell, told
from lockfast.core.descriptor import masked
from lockfast_challenge.broken.registry import FLAWS
from lockfast_challenge.checker.judge import judge
from lockfast_challenge.cli.lock_class import broken_names, found, is_class, known_lock
from lockfast_challenge.cli.play import ChallengeRequest, ProgressDisplay, as_scheduled, played
from lockfast_challenge.cli.summary import show
from lockfast_challenge.deployments.catalog import STORES
from lockfast_challenge.outcome import WORKLOADS, Outcome
from lockfast_challenge.report.page import page
from lockfast_challenge.report.wording import again, fields
from lockfast_challenge.runs.archive import kept

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


# Replay: judge a recorded run again, without running anything.


def replayed(folder: Path) -> Outcome:
    """Return the outcome of the run in this folder, as the current checker judges it.

    The folder does not record which faults could not be made.
    """
    try:
        setting, recorded, cut_short = kept(folder)
        findings = [finding for one in recorded.values() for finding in judge(one)]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"{folder} holds no history that can be read ({error}): "
            "name a folder that --history made"
        ) from error
    events = [event for one in recorded.values() for event in one.events]
    # A strike on the servers is in the record of every name.
    strikes = list(dict.fromkeys(each for one in recorded.values() for each in one.strikes))
    times = [event.at for event in events]
    times += [at for strike in strikes for at in (strike.began, strike.ended)]
    return Outcome(
        setting,
        began=min(times, default=0.0),
        ended=max(times, default=0.0),
        events=sorted(events, key=lambda event: event.at),
        writes=[write for one in recorded.values() for write in one.writes],
        strikes=sorted(strikes, key=lambda strike: strike.began),
        findings=sorted(findings, key=lambda finding: finding.at),
        grants=sum(one.act == "acquire" and one.phase == "ok" for one in events),
        cut_short=cut_short,
    )


# Ctrl-C during a challenge: clients and servers end, and the findings so far are reported.

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopping:
    """Records whether a signal asked the run to end, and which signal."""

    def __init__(self) -> None:
        self.by: int | None = None
        self._is_deferring = False

    @property
    def exit_code(self) -> int:
        """The exit code that a shell reports for this signal."""
        return 128 + (self.by or signal.SIGINT)

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Record the first signal in this block instead of raising, so that the run ends by itself.

        A second signal raises KeyboardInterrupt, so pressing Ctrl-C twice stops at once.
        """
        self._is_deferring = True
        try:
            yield
        finally:
            self._is_deferring = False

    def handle_signal(self, number: int, _: FrameType | None) -> None:
        """Record the signal; raise KeyboardInterrupt unless a first signal is held back."""
        is_first, self.by = self.by is None, number
        if not (self._is_deferring and is_first):
            raise KeyboardInterrupt


@contextmanager
def stopping() -> Iterator[Stopping]:
    """Handle the stop signals in this block; the previous handlers are restored afterwards."""
    one = Stopping()
    # Signals that our caller chose to ignore, as nohup does, stay ignored.
    taken = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, one.handle_signal) for number in taken}
    try:
        yield one
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


EPILOG = """\b
Examples:
  lockfast challenge --start redis
  lockfast challenge --start zookeeper --time 600 --report zookeeper.html
  lockfast challenge redis://staging.internal --faults holder-frozen
  lockfast challenge --lock bare-delete --report why.html
  lockfast challenge --lock my_locks:RedisLock --start redis

\b
Exit codes:
  0 valid: nothing wrong was seen; 1 invalid; 70 unknown: too little shown;
  69 the store is not available;
  78 a server, driver, fault, class or what the workload needs is missing;
  130 Ctrl-C, and nothing was wrong until then: the verdict is unknown
"""

EXIT_CODES = {"valid": 0, "invalid": 1, "unknown": 70}
LARGEST_SEED = 2**31


@click.command(
    epilog=EPILOG,
    context_settings=CONTEXT,
    short_help="Break a deployment on purpose, and see whether its locks hold.",
)
@click.argument("url", required=False)
@click.option(
    "--start",
    type=click.Choice(STORES),
    metavar="STORE",
    help=f"Start servers of its own instead: {', '.join(STORES)}.",
)
@click.option(
    "--time",
    "seconds",
    type=click.FloatRange(min=1.0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="For how long faults strike.",
)
@click.option(
    "--clients",
    type=click.IntRange(min=2, max=64),
    default=3,
    show_default=True,
    metavar="N",
    help="How many processes contend for each name.",
)
@click.option(
    "--names",
    type=click.IntRange(min=1, max=64),
    default=8,
    show_default=True,
    metavar="N",
    help="How many names are contended for side by side, each under faults of its own.",
)
@click.option(
    "--seed",
    type=int,
    metavar="N",
    help="Fixes the order, the kind and the length of faults; not how the clients interleave.",
)
@click.option("--faults", metavar="LIST", help="Only these kinds, separated by commas.")
@click.option(
    "--workload",
    type=click.Choice(list(WORKLOADS)),
    metavar="NAME",
    help=f"What is behind all locks: {', '.join(WORKLOADS)}. Without it a mixture of what the "
    "store offers.",
)
@click.option(
    "--ttl",
    type=click.FloatRange(min=0.2, max=60.0),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Of the leases; the longer, the longer a fault lasts.",
)
@click.option("--report", metavar="FILE", help="Write a page of HTML, with pictures.")
@click.option("--history", metavar="FOLDER", help="Keep what each client saw, as JSON lines.")
@click.option(
    "--lock",
    callback=known_lock,
    shell_complete=broken_names,
    metavar="NAME",
    help="Run one of the locks that are broken, by the faults that find it, until they do; or, as "
    "module:Class, a lock of your own on --start STORE or a URL.",
)
@click.option("--replay", metavar="FOLDER", help="Judge a kept history again; nothing is run.")
@click.option(
    "--yes-break-it",
    "may_break",
    is_flag=True,
    help="Strike servers too that are not on this machine.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Answer in JSON; errors on stderr, in JSON too."
)
def challenge(
    *,
    url: str | None,
    start: str | None,
    seed: int | None,
    faults: str | None,
    report: str | None,
    history: str | None,
    replay: str | None,
    lock: str | None,
    as_json: bool,
    **asked: Any,  # noqa: ANN401 - as click gives them
) -> None:
    """Break the deployment at URL on purpose, and see whether its locks hold.

    Processes contend for several names while faults strike, one kind after the other on each
    name, and what each of them saw is judged. Locks that are in use are not touched.
    """
    is_own = is_class(lock)
    if sum(one is not None for one in (url, start, replay, None if is_own else lock)) != 1:
        raise click.UsageError(
            "say what to challenge, and only that: a URL, --start STORE, --lock NAME or "
            "--replay FOLDER; --lock module:Class needs one of the first two"
        )
    if is_own and replay is not None:
        raise click.UsageError("--replay judges what is there: leave out --lock")
    request = ChallengeRequest(
        url=url,
        start=start or "",
        seed=random.randrange(LARGEST_SEED) if seed is None else seed,  # noqa: S311 - no secret
        faults=tuple(filter(None, (one.strip() for one in (faults or "").split(",")))),
        **asked,
    )
    for flaw in FLAWS:
        if flaw.name == lock:
            request = as_scheduled(request, flaw)
    with told(as_json=as_json), stopping() as end:
        page_at = None if report is None else _writable(Path(report))
        if lock is not None and is_own:
            request = replace(request, lock=found(lock))
        if replay is None:
            folder = None if history is None else _empty(Path(history))
            outcome = _played(request, folder, end)
        else:
            outcome = replayed(Path(replay))
        where = "" if url is None else masked(url)
        is_all = replay is None and not request.faults
        command = again(outcome.setting, where=where, all_faults=is_all)
        if page_at is not None:
            page_at.write_text(page(outcome, where=where, command=command), encoding="utf-8")
        if as_json:
            write_json(fields(outcome, command=command))
        else:
            show(screen(), outcome, command=command)
        # A signal that comes while the run ends cuts nothing short.
        is_cut_short = end.by is not None and outcome.cut_short and outcome.verdict != "invalid"
        sys.exit(end.exit_code if is_cut_short else EXIT_CODES[outcome.verdict])


def _played(request: ChallengeRequest, folder: Path | None, end: Stopping) -> Outcome:
    try:
        with ProgressDisplay(seconds=request.seconds) as display:
            return played(request, folder=folder, display=display, end=end)
    except KeyboardInterrupt:
        tell("stopped before there was anything to report")
        sys.exit(end.exit_code)


def _writable(file: Path) -> Path:
    """Return the file if it can be written; otherwise fail before the run and not after it."""
    there = file if file.exists() else file.parent
    if file.is_dir() or not os.access(there, os.W_OK):
        raise ConfigurationError(
            f"--report {file} cannot be written: name a file in a folder that you may write to"
        )
    return file


def _empty(folder: Path) -> Path:
    """Return the folder, created if it is missing; refuse a folder that is not empty.

    Files of another run would be mistaken for those of this run.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ConfigurationError(
                f"--history {folder} is not empty: name a new folder, or empty this one"
            )
    except OSError as error:
        raise ConfigurationError(
            f"--history {folder} cannot be used ({error.strerror}): name a folder of yours"
        ) from error
    return folder
