"""`python -m lockfast_challenge.broken`: test every flaw and its control with many seeds.

Prints a table. Exits with 1 if a broken lock was not caught, or a control was not judged valid.
With `--results FILE`, each run is appended to the file, and a run that is already there is not
repeated, so an interrupted series goes on where it ended. Use one file per version of the code.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, TypedDict

from lockfast_challenge.broken.catching import caught, spared
from lockfast_challenge.broken.registry import FLAWS

if TYPE_CHECKING:
    from lockfast_challenge.broken.registry import Flaw

FIND_TIMEOUT_SECONDS = 15.0
"""Time limit for a run to find the flaw, including the start of its clients, in seconds."""
COLUMNS = "{:>2}  {:24}{:>8}  {:>8}{:>8}{:>9}   {}"


class Run(TypedDict):
    """One run of a broken lock or of its control: a line of the results."""

    flaw: str
    is_control: bool
    seed: int
    seconds: float
    verdict: str
    findings: list[tuple[str, str]]
    """The kind and the message of each finding that is not documented."""


class Results:
    """The runs of a series; with a file, they are appended to it."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._known: dict[tuple[str, bool, int], Run] = {}
        if file is not None and file.exists():
            for line in file.read_text(encoding="utf-8").splitlines():
                one: Run = json.loads(line)
                self._known[one["flaw"], one["is_control"], one["seed"]] = one

    def of(self, flaw: Flaw, seed: int, *, is_control: bool) -> Run:
        """Return the result of a run, which is made unless the file already has it."""
        known = self._known.get((flaw.name, is_control, seed))
        if known is not None:
            return known
        with tempfile.TemporaryDirectory(prefix="lockfast-challenge-") as folder:
            if is_control:
                outcome = spared(flaw, seed, seconds=FIND_TIMEOUT_SECONDS, folder=Path(folder))
            else:
                outcome = caught(flaw, seed, within=FIND_TIMEOUT_SECONDS, folder=Path(folder))
        wrong = [one for one in outcome.findings if not one.is_documented]
        run = Run(
            flaw=flaw.name,
            is_control=is_control,
            seed=seed,
            seconds=outcome.ended - outcome.began,
            verdict=outcome.verdict,
            findings=[(one.kind, one.message) for one in wrong],
        )
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as file:
                print(json.dumps(run), file=file)
        return run


def main() -> None:
    """Run the requested flaws and print the table."""
    parser = argparse.ArgumentParser(prog="python -m lockfast_challenge.broken")
    names = [flaw.name for flaw in FLAWS]
    parser.add_argument("flaws", nargs="*", metavar="flaw", help=f"of {', '.join(names)}")
    parser.add_argument("--seeds", type=int, default=20, help="how many for each flaw")
    parser.add_argument("--controls", type=int, default=2, help="how many for each control")
    parser.add_argument("--results", type=Path, metavar="FILE", help="keep each run in this file")
    asked = parser.parse_args()
    unknown = set(asked.flaws) - set(names)
    if unknown:
        parser.error(f"there is no flaw {min(unknown)!r}; there are: {', '.join(names)}")
    print(COLUMNS.format("", "flaw", "found", "median", "longest", "control", "what it was called"))
    flaws = [flaw for flaw in FLAWS if flaw.name in (asked.flaws or names)]
    results = Results(asked.results)
    are_right = [_row(flaw, asked.seeds, asked.controls, results) for flaw in flaws]
    sys.exit(not all(are_right))


def _row(flaw: Flaw, seeds: int, controls: int, results: Results) -> bool:
    """Print a row of the table; return whether all runs caught the flaw and spared the control."""
    of_broken = [results.of(flaw, seed, is_control=False) for seed in range(seeds)]
    of_control = [results.of(flaw, seed, is_control=True) for seed in range(controls)]
    found = [
        one["seconds"] for one in of_broken if flaw.kind in {kind for kind, _ in one["findings"]}
    ]
    sound = sum(one["verdict"] == "valid" for one in of_control)
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
        for kind, message in one["findings"]:
            print(f"    control, seed {one['seed']}: {kind}: {message}")
    return len(found) == seeds and sound == controls


if __name__ == "__main__":
    main()
