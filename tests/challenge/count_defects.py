"""Count how often a challenge finds each reintroduced defect, and what it reports with the fix.

    python tests/challenge/count_defects.py --runs 10 --mended 20 deposed_leader

Without a name, the program counts all defects. The first seed is 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "shared")]

from challenge.defects.trials import TRIALS, play

from lockfast_challenge.deployments.catalog import own_servers


def count(name: str, runs: int, *, is_mended: bool) -> None:
    """Print the outcome of each run, and a summary line."""
    trial, found, took = TRIALS[name], 0, list[float]()
    with (
        tempfile.TemporaryDirectory() as folder,
        own_servers(trial.store, ttl=trial.ttl) as deployment,
    ):
        for seed in range(1, runs + 1):
            began = time.monotonic()
            outcome = play(
                name, deployment, Path(folder, str(seed)), seed=seed, is_mended=is_mended
            )
            seconds = time.monotonic() - began
            wrong = [one for one in outcome.findings if not one.is_documented]
            is_found = any(one.kind == trial.tells for one in wrong)
            found += is_found
            took += [seconds] * is_found
            said = wrong[0].message[:110] if wrong else f"{outcome.grants} grants"
            tell(f"  seed {seed}: {outcome.verdict}, {seconds:.1f} s, {said}")
    which = "mended" if is_mended else "put back"
    times = f", in {sorted(took)[len(took) // 2]:.1f} s (median), {max(took):.1f} s" if took else ""
    tell(f"{name} {which}: found in {found} of {runs}{times}")


def tell(line: str) -> None:
    """Print a line at once: a run takes a while."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Count the defects that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("defects", nargs="*", choices=[[], *TRIALS])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--mended", type=int, default=20)
    asked = parser.parse_args()
    for name in asked.defects or TRIALS:
        for runs, is_mended in ((asked.runs, False), (asked.mended, True)):
            if runs:
                count(name, runs, is_mended=is_mended)


if __name__ == "__main__":
    main()
