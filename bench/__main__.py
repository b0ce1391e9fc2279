"""`python -m bench [SUITE…]`: run the suites and print their tables."""

from __future__ import annotations

import argparse
import importlib

SUITES = ("embedded", "redis")


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("suite", nargs="*", choices=[*SUITES, []], help=", ".join(SUITES))
    for suite in parser.parse_args().suite or SUITES:
        importlib.import_module(f"bench.{suite}").main()


if __name__ == "__main__":
    main()
