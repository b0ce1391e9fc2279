"""Make the library unsafe on purpose, one decision at a time, and see whether that is noticed.

    tools/mutants.py                       each mutant against the tests of its room
    tools/mutants.py --challenge           each that a client can observe against the challenge
    tools/mutants.py --only NAME ...       only these

Each result is appended to `tools/mutants.jsonl`, from which docs/reference/mutants.md is generated.
A mutant is not run again until it, the file that it changes or the files that judge it change. The
exit code is 1 if a mutant survived without an explanation in the table.
"""

from __future__ import annotations

import argparse
import json
import queue
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import challenge_stores
import mutants_of_all_stores
import mutants_of_redis
import mutants_of_sessions
import mutants_of_sql
from mutant_copies import ROOT, Copy, Mutant, Ran, contents, digest

MUTANTS: tuple[Mutant, ...] = (
    *mutants_of_all_stores.MUTANTS,
    *mutants_of_sql.MUTANTS,
    *mutants_of_redis.MUTANTS,
    *mutants_of_sessions.MUTANTS,
)
RESULTS = ROOT / "tools" / "mutants.jsonl"
CHALLENGE = "challenge/src/lockfast_challenge"
CHALLENGE_SECONDS = 60.0
"""For how long faults strike in a challenge with default flags, in seconds."""

CAUGHT, SURVIVED = "caught", "survived"

Result = dict[str, Any]


class Results:
    """The results in a file, to which new ones are appended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mutex = threading.Lock()
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.all: list[Result] = [json.loads(one) for one in lines]

    def find(self, **facts: object) -> Result | None:
        """Return the newest result with these facts."""
        wanted = facts.items()
        return next((one for one in reversed(self.all) if wanted <= one.items()), None)

    def add(self, result: Result) -> Result:
        """Keep the result, with the date."""
        result = {**result, "date": datetime.now(UTC).date().isoformat()}
        with self._mutex:
            self.all.append(result)
            with self._path.open("a", encoding="utf-8") as file:
                print(json.dumps(result), file=file)
        return result


class Judge:
    """Runs mutants in copies of the tree, several at once."""

    def __init__(self, results: Results, folder: Path, *, at_once: int) -> None:
        self._results = results
        self._at_once = at_once
        self._threads = ThreadPoolExecutor(at_once)
        self._copies: queue.Queue[Copy | Path] = queue.Queue()
        for number in range(at_once):
            self._copies.put(folder / f"copy {number}")

    def by_tests(self, mutants: Sequence[Mutant]) -> list[Result]:
        """Return what the tests of its room found of each mutant.

        The tests have to pass without any mutant first; otherwise their failure proves nothing.
        """
        wanted = [one for one in mutants if self._kept_by_tests(one) is None]
        controls = self._controls(list(dict.fromkeys(test for one in wanted for test in one.tests)))
        unsound = {one["mutant"] for one in controls if one["outcome"] != "passed"}
        for one in controls:
            if one["mutant"] in unsound:
                print(f"without a mutant, {one['mutant']}: {one['outcome']} {one['by']}")
        sound = [one for one in wanted if not unsound.intersection(one.tests)]
        for found in self._threads.map(self._tested, sound):
            print(f"{found['mutant']:40} {found['outcome']:10} {found['seconds']:4} s", flush=True)
        kept = [self._kept_by_tests(one) for one in mutants]
        return [one for one in kept if one is not None]

    def _kept_by_tests(self, mutant: Mutant) -> Result | None:
        return self._results.find(judge="tests", mutant=mutant.name, key=_tests_key(mutant))

    def _controls(self, tests: Sequence[str]) -> list[Result]:
        """Return the result of each test without a mutant."""
        keys = {one: digest(*contents(["src/lockfast", f"tests/{one}"])) for one in tests}
        facts = {one: {"judge": "control", "mutant": one, "key": keys[one]} for one in tests}
        known = {one: self._results.find(**facts[one], outcome="passed") for one in tests}
        # Those of one room run together, because they share its servers.
        unknown = sorted(one for one in tests if known[one] is None)
        half = (len(unknown) + self._at_once - 1) // self._at_once
        parts = [unknown[at : at + half] for at in range(0, len(unknown), half or 1)]
        for part, ran in zip(parts, self._threads.map(self._control, parts), strict=True):
            for one in part:
                failed = [each for each in ran.failed if each.startswith(f"tests/{one}")]
                outcome = "failed" if failed else ran.outcome if not ran.failed else "passed"
                said = {"outcome": outcome, "by": " ".join(failed[:1])}
                known[one] = self._results.add({**facts[one], **said})
        return [one for one in known.values() if one is not None]

    def _control(self, tests: Sequence[str]) -> Ran:
        with self._copy() as copy:
            return copy.run_tests(tests, all_of_them=True)

    def _tested(self, mutant: Mutant) -> Result:
        facts = {"judge": "tests", "mutant": mutant.name, "key": _tests_key(mutant)}
        with self._copy() as copy, copy.with_mutant(mutant):
            ran = copy.run_tests(mutant.tests)
        outcome = {"failed": CAUGHT, "passed": SURVIVED}.get(ran.outcome, ran.outcome)
        said = {"outcome": outcome, "by": " ".join(ran.failed[:1]), "seconds": round(ran.seconds)}
        return self._results.add({**facts, **said})

    def by_challenge(self, mutants: Sequence[Mutant], seeds: Sequence[int]) -> list[Result]:
        """Return what the challenge found of each mutant; it stops at a seed that finds it."""
        seen = [one for one in mutants if one.store]
        return [
            one
            for some in self._threads.map(lambda one: self._challenged(one, seeds), seen)
            for one in some
        ]

    def _challenged(self, mutant: Mutant, seeds: Sequence[int]) -> list[Result]:
        found = []
        facts = {"judge": "challenge", "mutant": mutant.name, "store": mutant.store}
        facts["key"] = mutant.key([CHALLENGE])
        for seed in seeds:
            known = self._results.find(**facts, seed=seed)
            found.append(known or self._results.add({**facts, **self._one_seed(mutant, seed)}))
            print(f"{mutant.name:40} seed {seed}: {found[-1]['outcome']}", flush=True)
            if found[-1]["outcome"] == CAUGHT:
                break
        return found

    def _one_seed(self, mutant: Mutant, seed: int) -> Result:
        begun = time.monotonic()
        with self._copy() as copy, copy.with_mutant(mutant):
            ran = challenge_stores.run(
                copy.folder, mutant.store, seed=seed, seconds=CHALLENGE_SECONDS
            )
        outcome = {"invalid": CAUGHT, "valid": SURVIVED}.get(ran["verdict"], ran["verdict"])
        kinds = Counter(one.partition(":")[0] for one in ran["findings"])
        seconds = round(time.monotonic() - begun)
        said = {"seed": seed, "outcome": outcome, "by": ", ".join(kinds), "grants": ran["grants"]}
        return {**said, "seconds": seconds}

    def _copy(self) -> _Borrowed:
        return _Borrowed(self._copies)


class _Borrowed:
    """A copy that no other thread uses, made when it is first needed."""

    def __init__(self, copies: queue.Queue[Copy | Path]) -> None:
        self._copies = copies

    def __enter__(self) -> Copy:
        found = self._copies.get()
        try:
            self._copy = Copy(found) if isinstance(found, Path) else found
        except BaseException:
            self._copies.put(found)  # otherwise the next thread would wait for it for ever
            raise
        return self._copy

    def __exit__(self, *error: object) -> None:
        self._copies.put(self._copy)


def _tests_key(mutant: Mutant) -> str:
    return mutant.key([f"tests/{one}" for one in mutant.tests])


# -- the page ----------------------------------------------------------------------------------


def table(results: Results | None = None) -> Iterator[str]:
    """Yield the table of docs/reference/mutants.md: what each judge has found, and how fast."""
    known = results or Results(RESULTS)
    yield "| mutant | what it breaks | found by its tests | s | found by the challenge | s |"
    yield "|---|---|---|---|---|---|"
    for one in MUTANTS:
        cells = (*_tests_cells(one, known), *_challenge_cells(one, known))
        yield f"| `{one.name}` | {one.breaks} | {' | '.join(cells)} |"


def dates(results: Results | None = None) -> Iterator[str]:
    """Yield the sentence that says from when the results are."""
    known = (results or Results(RESULTS)).all
    for judge, name in (("tests", "the tests"), ("challenge", "the challenge")):
        days = sorted({one["date"] for one in known if one["judge"] == judge})
        if days:
            when = f"on {days[0]}" if len(days) == 1 else f"from {days[0]} to {days[-1]}"
            yield f"- {name}: run {when}"


def _tests_cells(mutant: Mutant, known: Results) -> tuple[str, str]:
    found = known.find(judge="tests", mutant=mutant.name)
    if found is None:
        return "not run yet", ""
    by = found["by"].partition("::")[2].partition("[")[0]
    return f"`{by}`" if found["outcome"] == CAUGHT else found["outcome"], str(found["seconds"])


def _challenge_cells(mutant: Mutant, known: Results) -> tuple[str, str]:
    if not mutant.store:
        return f"cannot be observed: {mutant.why_unseen}", ""
    newest = known.find(judge="challenge", mutant=mutant.name, store=mutant.store)
    if newest is None:
        return "not run yet", ""
    facts = ("judge", "mutant", "key", "store")
    runs = [one for one in known.all if all(one.get(fact) == newest[fact] for fact in facts)]
    seconds = str(sum(one["seconds"] for one in runs))
    caught = [one for one in runs if one["outcome"] == CAUGHT]
    if caught:
        return f"{caught[-1]['by']}, on {mutant.store}", seconds
    said = f"not within {len(runs)} runs of {CHALLENGE_SECONDS:.0f} s on {mutant.store}"
    return f"{said}: {mutant.why_unseen}" if mutant.why_unseen else said, seconds


# -- the command line --------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; the exit code is 1 if a mutant survived, unexplained."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--challenge", action="store_true", help="challenge them, not test them")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[one.name for one in MUTANTS])
    parser.add_argument("--stores", nargs="+", metavar="STORE", help="only what these stores show")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2], help="of the challenge")
    parser.add_argument("--at-once", type=int, help="default: 2 runs of tests, or 1 challenge")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file to append to")
    asked = parser.parse_args(arguments)
    mutants = [
        one
        for one in MUTANTS
        if asked.only is None or one.name in asked.only
        if asked.stores is None or one.store in asked.stores
    ]
    results = Results(asked.results)
    at_once = asked.at_once or (1 if asked.challenge else 2)
    with tempfile.TemporaryDirectory(prefix="lockfast-mutants-") as folder:
        judge = Judge(results, Path(folder), at_once=at_once)
        if asked.challenge:
            found = judge.by_challenge(mutants, asked.seeds)
        else:
            found = judge.by_tests(mutants)
    print(*table(results), sep="\n")
    return int(bool(unexplained(mutants, found, is_challenge=asked.challenge)))


def unexplained(
    mutants: Sequence[Mutant], found: Sequence[Result], *, is_challenge: bool
) -> list[str]:
    """Return the names of the mutants that nobody caught, and whose survival nothing explains."""
    caught = {one["mutant"] for one in found if one["outcome"] == CAUGHT}
    return [
        one.name
        for one in mutants
        if one.name not in caught
        if not is_challenge or (one.store and not one.why_unseen)
    ]


if __name__ == "__main__":
    sys.exit(main())
