"""`lockfast challenge`: break a deployment on purpose, and see whether its locks hold."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lockfast import ConfigurationError
from lockfast.challenge.broken.registry import FLAWS
from lockfast.challenge.deployments.choosing import STORES
from lockfast.challenge.report.fields import fields
from lockfast.challenge.report.page import page
from lockfast.challenge.report.wording import again
from lockfast.challenge.workloads import WORKLOADS
from lockfast.cli.challenge.playing import Wanted, as_scheduled, played
from lockfast.cli.challenge.progress import Teller
from lockfast.cli.challenge.replaying import judged_again
from lockfast.cli.challenge.stopping import stopping
from lockfast.cli.challenge.summary import show
from lockfast.cli.options import CONTEXT
from lockfast.cli.screen import screen, write_json
from lockfast.cli.store import tell, told
from lockfast.core.locating import masked

if TYPE_CHECKING:
    from lockfast.challenge.outcome import Outcome
    from lockfast.cli.challenge.stopping import Stopping

EPILOG = """\b
Examples:
  lockfast challenge --start redis
  lockfast challenge --start zookeeper --time 600 --report zookeeper.html
  lockfast challenge redis://staging.internal --faults holder-frozen
  lockfast challenge --lock bare-delete --report why.html

\b
Exit codes:
  0 valid: nothing wrong was seen; 1 invalid; 70 unknown: too little shown;
  69 the store is not available; 78 a server, a driver or a fault is missing;
  130 Ctrl-C, and nothing was wrong until then
"""

CODES = {"valid": 0, "invalid": 1, "unknown": 70}
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
    default=5,
    show_default=True,
    metavar="N",
    help="How many processes contend.",
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
    help=f"What is behind the lock: {', '.join(WORKLOADS)}. Without it guarded-counter, and lock "
    "on a store that has no tokens.",
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
    type=click.Choice([flaw.name for flaw in FLAWS]),
    metavar="NAME",
    help="Run one of the locks that are broken, by the faults that find it, until they do.",
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

    Processes contend for a lock while faults strike, one kind after the other, and what each
    of them saw is judged. Locks that are in use are not touched.
    """
    if sum(one is not None for one in (url, start, replay, lock)) != 1:
        raise click.UsageError(
            "say what to challenge, and only that: a URL, --start STORE, --lock NAME or "
            "--replay FOLDER"
        )
    wanted = Wanted(
        url=url,
        start=start or "",
        seed=random.randrange(LARGEST_SEED) if seed is None else seed,  # noqa: S311 - no secret
        faults=tuple(filter(None, (one.strip() for one in (faults or "").split(",")))),
        **asked,
    )
    for flaw in FLAWS:
        if flaw.name == lock:
            wanted = as_scheduled(wanted, flaw)
    with told(as_json=as_json), stopping() as end:
        page_at = None if report is None else _writable(Path(report))
        if replay is None:
            folder = None if history is None else _empty(Path(history))
            outcome = _played(wanted, folder, end)
        else:
            outcome = judged_again(Path(replay))
        where = "" if url is None else masked(url)
        is_all = replay is None and not wanted.faults
        command = again(outcome.setting, where=where, all_faults=is_all)
        if page_at is not None:
            page_at.write_text(page(outcome, where=where, command=command), encoding="utf-8")
        if as_json:
            write_json(fields(outcome, command=command))
        else:
            show(screen(), outcome, command=command)
        is_cut_short = end.by is not None and outcome.verdict != "invalid"
        sys.exit(end.exit_code if is_cut_short else CODES[outcome.verdict])


def _played(wanted: Wanted, folder: Path | None, end: Stopping) -> Outcome:
    try:
        with Teller(seconds=wanted.seconds) as teller:
            return played(wanted, folder=folder, teller=teller, end=end)
    except KeyboardInterrupt:
        tell("stopped before there was anything to report")
        sys.exit(end.exit_code)


def _writable(file: Path) -> Path:
    """Return it, if it can be written; after the run would be too late to say that it cannot."""
    there = file if file.exists() else file.parent
    if file.is_dir() or not os.access(there, os.W_OK):
        raise ConfigurationError(
            f"--report {file} cannot be written: name a file in a folder that you may write to"
        )
    return file


def _empty(folder: Path) -> Path:
    """Return it, made if need be; what another run left there would be taken for this one's."""
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
