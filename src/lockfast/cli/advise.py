"""`lockfast advise`: reports whether each ttl fits and which names to split, with the figures."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from time import monotonic
from time import sleep as pause
from typing import TYPE_CHECKING

import click

from lockfast.cli.json_output import write_json
from lockfast.cli.output import as_rows, plain, screen
from lockfast.cli.store import CONTEXT, names_in_use, opened, store_options, told
from lockfast.observe.advice import advice_on
from lockfast.observe.figures import duration
from lockfast.observe.sampling import StoreSampling

if TYPE_CHECKING:
    from lockfast import Locks
    from lockfast.observe.advice import Advice

EPILOG = """\b
Examples:
  lockfast advise
  lockfast advise --for 300
  lockfast advise order: --every 0.1
  lockfast advise --json | jq '.advice[] | select(.level == "warning")'

\b
Each look asks for all names in use that begin with PREFIX. A hold that is
shorter than the time between two looks is seen by chance, and each is
known to within that time: so times are told as "at most". In a program,
locks.advice() knows every hold of its client exactly.
"""


@click.command(
    epilog=EPILOG,
    context_settings=CONTEXT,
    short_help="Watch the locks in use; say which ttl fits and what to split.",
)
@click.argument("prefix", default="", shell_complete=names_in_use)
@click.option(
    "--for",
    "seconds",
    type=click.FloatRange(min=0, max=86400),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="For how long to look; Ctrl-C ends it earlier.",
)
@click.option(
    "--every",
    type=click.FloatRange(min=0.01, max=60),
    default=0.5,
    show_default=True,
    metavar="SECONDS",
    help="How often to look.",
)
@store_options
def advise(
    *,
    prefix: str,
    seconds: float,
    every: float,
    url: str | None,
    namespace: str | None,
    as_json: bool,
) -> None:
    """Watch the locks in use, or those whose names begin with PREFIX, and give advice.

    Names are grouped by pattern: order:17 counts as order:*. For each pattern, the advice says
    whether the ttl is longer than recovery needs or too short for the work, and which name should
    be split because its line costs more than its holds. All advice comes with its figures.
    """
    with told(as_json=as_json), opened(url, namespace=namespace, must_exist=True) as locks:
        looking = StoreSampling()
        with suppress(KeyboardInterrupt):  # Ctrl-C ends the sampling early
            _look(locks, looking, prefix=prefix, seconds=seconds, every=every)
        advice = [one for figures in looking.figures() for one in advice_on(figures)]
        if as_json:
            write_json(
                {
                    "store": locks.location,
                    "looks": looking.looks,
                    "seconds": looking.seconds,
                    "advice": [asdict(one) for one in advice],
                }
            )
        else:
            _print(locks, looking, advice)


def _look(
    locks: Locks, looking: StoreSampling, *, prefix: str, seconds: float, every: float
) -> None:
    began = monotonic()
    while True:
        seen = list(locks.survey(prefix))
        now = monotonic()
        looking.look(seen, at=now)
        left = began + seconds - now
        if left <= 0:
            return
        pause(min(every, left))


def _print(locks: Locks, looking: StoreSampling, advice: list[Advice]) -> None:
    console = screen()
    times = "once" if looking.looks == 1 else f"{looking.looks} times"
    span = f" in {duration(looking.seconds)}" if looking.looks > 1 else ""
    console.print(plain(f"looked {times}{span} at {locks.location}", "bold"))
    if not advice:
        console.print(plain("no lock was in use"))
        return
    console.print(as_rows((one.level, one.pattern, one.message, one.remedy) for one in advice))
