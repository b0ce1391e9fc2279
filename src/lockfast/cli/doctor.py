"""`lockfast doctor`: what this deployment guarantees, and what it does not."""

from __future__ import annotations

import platform
import sys
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING

import click

import lockfast
from lockfast.cli.deadlocks import confirmed_cycles, sentences
from lockfast.cli.json_output import write_json
from lockfast.cli.output import as_rows, plain, screen
from lockfast.cli.store import CONTEXT, opened, store_options, told
from lockfast.core.renewal import life_of
from lockfast.errors import LockError
from lockfast.model import Finding, TokenQuality
from lockfast.observe.sampling import sample_findings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast import Capabilities, Locks

EPILOG = """\b
Examples:
  lockfast doctor
  lockfast doctor --url redis://locks.internal
  lockfast doctor --json | jq '.findings[] | select(.level != "ok")'

\b
Exit codes:
  0 no finding is an error; 1 one is; 69 the store is not available
"""

SURVEY_NAMES_MAX = 10_000
"""Maximum number of names in use that the doctor inspects."""

TOKENS = {
    TokenQuality.NONE: "none: this store cannot stop a holder that was paused",
    TokenQuality.PROCESS: "grow as long as this process lives",
    TokenQuality.BEST_EFFORT: "never go back, unless the store loses its last writes",
    TokenQuality.DURABLE: "never go back; on disk before they are given",
    TokenQuality.CONSENSUS: "never go back; agreed by a majority of servers",
}


@click.command(
    epilog=EPILOG,
    context_settings=CONTEXT,
    short_help="Say what this store promises and lacks, and how to fix it.",
)
@store_options
def doctor(*, url: str | None, namespace: str | None, as_json: bool) -> None:
    """Say what this store promises, what it does not, and how to fix it."""
    with (
        told(as_json=as_json),
        opened(url, namespace=namespace, allow_in_process=True, must_exist=True) as locks,
    ):
        found = locks.diagnose()
        findings = [*found, *_lease_findings(locks, found)]
        if as_json:
            write_json(
                {
                    "store": locks.location,
                    "version": lockfast.__version__,
                    "python": platform.python_version(),
                    "capabilities": asdict(locks.capabilities),
                    "findings": [asdict(one) for one in findings],
                }
            )
        else:
            _print(locks.location, locks.capabilities, findings)
        if any(one.level == "error" for one in findings):
            sys.exit(1)


def _lease_findings(locks: Locks, found: Sequence[Finding]) -> list[Finding]:
    """Return findings about the locks in use: very long ttls, long lines, deadlocks."""
    # Skip the survey while the tables do not exist yet, because reading them would create them.
    if any(one.subject == "tables" for one in found):
        return []
    try:
        return [*sample_findings(islice(locks.survey(), SURVEY_NAMES_MAX)), *_deadlocks(locks)]
    except LockError as error:
        said = f"who holds and who waits could not be read: {error}"
        return [Finding.warning("leases", said, "once it can be read: lockfast doctor again")]


def _deadlocks(locks: Locks) -> list[Finding]:
    """Return a finding for each deadlock that the store shows."""
    return [
        Finding.error(
            "deadlock",
            "; ".join(sentences(one)),
            "end one of them, or its lease: lockfast break NAME --token TOKEN. Then let the "
            "program take these names in one order, or together by locks.all()",
        )
        for one in confirmed_cycles(locks.survey)
    ]


def _print(where: str, declared: Capabilities, findings: Sequence[Finding]) -> None:
    console = screen()
    console.print(plain(f"lockfast {lockfast.__version__}, store {where}", "bold"))
    declared_rows = [("promise", *one, "") for one in promises(declared)]
    found_rows = [(one.level, one.subject, one.message, one.remedy) for one in findings]
    console.print(as_rows([*declared_rows, *found_rows]))


def promises(declared: Capabilities) -> list[tuple[str, str]]:
    """Return what the backend declares, as pairs of a topic and a sentence."""
    order = "in order of arrival" if declared.fair else "in no order: whoever asks first"
    wakeup = "woken by the store" if declared.push_wakeup else "asking again and again"
    kinds = "locks, read-write locks, semaphores" if declared.shared else "locks only"
    freed = life_of(declared).blocks_after_crash
    return [
        ("tokens", TOKENS[declared.token_quality]),
        ("line", f"{order}, {wakeup}"),
        ("offers", kinds),
        ("crash", f"a dead holder's lock is free when {freed}, at the latest"),
    ]
