"""`python -m lockfast_challenge.broken`: test every flaw and its control with many seeds.

Prints a table. Exits with 1 if a broken lock was not caught, or a control was not judged valid.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from lockfast_challenge.broken.catching import caught, spared
from lockfast_challenge.broken.registry import FLAWS

if TYPE_CHECKING:
    from lockfast_challenge.broken.registry import Flaw
    from lockfast_challenge.outcome import Outcome

FIND_TIMEOUT_SECONDS = 15.0
"""Time limit for a run to find the flaw, including the start of its clients, in seconds."""
COLUMNS = "{:>2}  {:24}{:>8}  {:>8}{:>8}{:>9}   {}"


def main() -> None:
    """Run the requested flaws and print the table."""
    parser = argparse.ArgumentParser(prog="python -m lockfast_challenge.broken")
    names = [flaw.name for flaw in FLAWS]
    parser.add_argument("flaws", nargs="*", metavar="flaw", help=f"of {', '.join(names)}")
    parser.add_argument("--seeds", type=int, default=20, help="how many for each flaw")
    parser.add_argument("--controls", type=int, default=2, help="how many for each control")
    asked = parser.parse_args()
    unknown = set(asked.flaws) - set(names)
    if unknown:
        parser.error(f"there is no flaw {min(unknown)!r}; there are: {', '.join(names)}")
    print(COLUMNS.format("", "flaw", "found", "median", "longest", "control", "what it was called"))
    flaws = [flaw for flaw in FLAWS if flaw.name in (asked.flaws or names)]
    are_right = [_row(flaw, asked.seeds, asked.controls) for flaw in flaws]
    sys.exit(not all(are_right))


def _row(flaw: Flaw, seeds: int, controls: int) -> bool:
    """Print a row of the table; return whether all runs caught the flaw and spared the control."""
    with tempfile.TemporaryDirectory(prefix="lockfast-challenge-") as folder:
        of_broken = [
            caught(flaw, seed, within=FIND_TIMEOUT_SECONDS, folder=Path(folder) / f"broken-{seed}")
            for seed in range(seeds)
        ]
        of_control = [
            spared(
                flaw, seed, seconds=FIND_TIMEOUT_SECONDS, folder=Path(folder) / f"control-{seed}"
            )
            for seed in range(controls)
        ]
    found = [one.ended - one.began for one in of_broken if _is_found(flaw, one)]
    sound = sum(one.verdict == "valid" for one in of_control)
    print(
        COLUMNS.format(
            flaw.number,
            flaw.name,
            f"{len(found)}/{seeds}",
            f"{median(found):.1f} s" if found else "-",
            f"{max(found):.1f} s" if found else "-",
            f"{sound}/{controls}",
            flaw.kind,
        ),
        flush=True,
    )
    for one in of_control:
        for finding in one.findings:
            print(f"    control, seed {one.setting.seed}: {finding.kind}: {finding.message}")
    return len(found) == seeds and sound == controls


def _is_found(flaw: Flaw, outcome: Outcome) -> bool:
    return any(one.kind == flaw.kind and not one.is_documented for one in outcome.findings)


if __name__ == "__main__":
    main()
