"""Run the challenge on every store with fixed seeds, and append each verdict to a file of results.

A run that the file already has is not repeated, so an interrupted series goes on where it ended.
Results of two trees are compared by the commit that each line names:

    python tools/challenge_stores.py results.jsonl --time 120 --seeds 1 2
    python tools/challenge_stores.py results.jsonl --time 120 --seeds 1 2 --tree ../before
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
STORES = (
    "redis",
    "sentinel",
    "cluster",
    "redlock",
    "postgresql",
    "mysql",
    "mariadb",
    "zookeeper",
    "etcd",
    "memcached",
    "sqlite",
)
KEYS = ("commit", "store", "seed", "time")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; the exit code is 1 if a verdict is not `valid`."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results", type=Path, help="the file to append to")
    parser.add_argument("--stores", nargs="+", choices=STORES, default=STORES)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--time", type=float, default=120.0, help="seconds of faults in each run")
    parser.add_argument("--tree", type=Path, default=ROOT, help="the clone to test")
    asked = parser.parse_args(arguments)
    commit = _commit(asked.tree)
    known = {tuple(one[key] for key in KEYS): one for one in kept(asked.results)}
    verdicts = []
    for seed in asked.seeds:
        for store in asked.stores:
            outcome = known.get((commit, store, seed, asked.time))
            if outcome is None:
                outcome = {"commit": commit, "store": store, "seed": seed, "time": asked.time}
                outcome |= run(asked.tree, store, seed=seed, seconds=asked.time)
                with asked.results.open("a", encoding="utf-8") as file:
                    print(json.dumps(outcome), file=file)
            verdicts.append(outcome["verdict"])
            print(f"{store:12} seed {seed}  {outcome['verdict']:8} {outcome['grants']} grants")
    return int(set(verdicts) != {"valid"})


def kept(results: Path) -> Iterator[dict[str, Any]]:
    """Yield the results that the file has."""
    if results.exists():
        yield from map(json.loads, results.read_text(encoding="utf-8").splitlines())


def run(tree: Path, store: str, *, seed: int, seconds: float) -> dict[str, Any]:
    """Return the verdict on one store, the number of grants, and what was found."""
    command = [sys.executable, "-m", "lockfast", "challenge", "--start", store]
    command += ["--time", str(seconds), "--seed", str(seed), "--json"]
    paths = os.pathsep.join(str(tree / part) for part in ("src", "challenge/src"))
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": paths},
        cwd=tree,
        stdout=subprocess.PIPE,
        check=False,
        timeout=10 * seconds + 300,
    )
    try:
        found = json.loads(done.stdout)
    except ValueError:
        return {"verdict": f"exit code {done.returncode}", "grants": 0, "findings": []}
    findings = [f"{one['kind']}: {one['message']}" for one in found["findings"]]
    return {"verdict": found["verdict"], "grants": found["figures"]["grants"], "findings": findings}


def _commit(tree: Path) -> str:
    command = ["git", "-C", str(tree), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
