"""`python -m bench [--write] [SUITE…]`: run the suites, print their tables, write their pages."""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys

from bench.reporting import DOCS

SUITES = (
    "crowd",
    "embedded",
    "etcd",
    "listing",
    "memcached",
    "observing",
    "redis",
    "redlock",
    "rows",
    "shards",
    "sql",
    "waiting",
    "zookeeper",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("suite", nargs="*", choices=[*SUITES, []], help=", ".join(SUITES))
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks too")
    arguments = parser.parse_args()
    for suite in arguments.suite or SUITES:
        report = importlib.import_module(f"bench.{suite}").main()
        if arguments.write:
            report.write()
    if arguments.write:
        # Add a new page to the index of the documentation.
        subprocess.run(
            [sys.executable, "tools/generate_docs.py"], cwd=DOCS.parent.parent, check=True
        )


if __name__ == "__main__":
    main()
