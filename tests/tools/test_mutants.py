"""The table of mutants fits the library, and the tool reports a survivor and repeats no run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import mutant_copies
import mutants
from mutant_copies import ROOT, Copy, Mutant, MutantHasMoved, Ran

STORES = ("etcd", "memcached", "mysql", "postgresql", "redis", "redlock", "sqlite", "zookeeper")
LAWS = ROOT / "src" / "lockfast" / "testing" / "_async" / "contract"


# -- the table ---------------------------------------------------------------------------------


def test_every_mutant_changes_one_place_of_a_source() -> None:
    for one in mutants.MUTANTS:
        before = (ROOT / one.path).read_text("utf-8")

        assert one.applied(before) != before
        assert "_sync" not in one.path.parts


def test_the_tests_of_every_mutant_exist() -> None:
    laws = "".join(path.read_text("utf-8") for path in LAWS.glob("*.py"))
    for test in (test for one in mutants.MUTANTS for test in one.tests):
        path, _, names = test.partition("::")
        name = names.rpartition("::")[2]
        source = (ROOT / "tests" / path).read_text("utf-8")

        assert not name or re.search(rf"def {name}\(", source + laws), test


def test_each_has_a_name_of_its_own_and_says_what_it_breaks() -> None:
    names = Counter(one.name for one in mutants.MUTANTS)

    assert max(names.values()) == 1
    assert all(one.breaks.endswith(".") and one.tests for one in mutants.MUTANTS)


def test_what_the_challenge_cannot_see_is_explained() -> None:
    assert [one.name for one in mutants.MUTANTS if not one.store and not one.why_unseen] == []


def test_every_store_has_several() -> None:
    found = Counter(one.name.split("-")[0] for one in mutants.MUTANTS)

    assert [store for store in STORES if found[store] < 2] == []


def test_a_mutant_whose_line_has_moved_says_so() -> None:
    with pytest.raises(MutantHasMoved, match=r"occurs 0 times in src.lockfast.core.door\.py"):
        one_mutant(old="no such line").applied("door = 1\n")


# -- the runs ----------------------------------------------------------------------------------


def one_mutant(name: str = "open-door", **more: Any) -> Mutant:
    facts = {"old": "admit", "new": "admit all", "store": "redis", **more}
    return Mutant(name, "core/door.py", breaks="All.", tests=("core/test_door.py",), **facts)


class NoCopy:
    """Takes the place of a copy: which tests fail is known, and nothing is run."""

    ran: list[str]
    caught: set[str]

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mutant = "control"

    @contextmanager
    def with_mutant(self, mutant: Mutant):
        self.mutant = mutant.name
        yield
        self.mutant = "control"

    def run_tests(self, tests: Sequence[str], *, all_of_them: bool = False) -> Ran:
        assert all_of_them == (self.mutant == "control")
        self.ran.append(self.mutant)
        has_failed = self.mutant in self.caught
        return (
            Ran("failed", (f"tests/{tests[0]}::t",), 1.0) if has_failed else Ran("passed", (), 2.0)
        )


@pytest.fixture
def runs(monkeypatch) -> type[NoCopy]:
    """The runs of two mutants, of which the tests notice the first."""
    monkeypatch.setattr(mutants, "MUTANTS", (one_mutant(), one_mutant("late-door")))
    monkeypatch.setattr(mutants, "Copy", NoCopy)
    NoCopy.ran, NoCopy.caught = [], {"open-door"}
    return NoCopy


def play(results: Path, *arguments: str) -> int:
    return mutants.main(["--results", str(results), "--at-once", "1", *arguments])


def test_a_survivor_makes_the_run_fail_and_one_that_is_caught_does_not(runs, tmp_path):
    results = tmp_path / "results.jsonl"

    assert play(results, "--only", "open-door") == 0
    assert play(results) == 1
    runs.caught.add("late-door")
    assert play(tmp_path / "others.jsonl") == 0


def test_what_the_file_has_is_not_run_again(runs, tmp_path):
    results = tmp_path / "results.jsonl"
    play(results)
    before = results.read_text("utf-8")

    assert play(results) == 1

    assert runs.ran == ["control", "open-door", "late-door"]
    assert results.read_text("utf-8") == before


def test_a_mutant_whose_text_was_changed_is_run_again(runs, tmp_path, monkeypatch):
    results = tmp_path / "results.jsonl"
    play(results)
    changed = one_mutant("late-door", new="admit some")
    monkeypatch.setattr(mutants, "MUTANTS", (one_mutant(), changed))

    play(results)

    assert runs.ran == ["control", "open-door", "late-door", "late-door"]


def test_where_the_tests_fail_without_a_mutant_nothing_is_judged(runs, tmp_path, capsys):
    runs.caught |= {"control", "late-door"}
    results = tmp_path / "results.jsonl"

    assert play(results) == 1

    assert runs.ran == ["control"]
    assert "without a mutant, core/test_door.py: failed" in capsys.readouterr().out
    [kept] = map(json.loads, results.read_text("utf-8").splitlines())
    assert kept["judge"] == "control"


def test_the_challenge_ends_at_the_first_seed_that_finds_the_mutant(runs, tmp_path, monkeypatch):
    asked = []

    def run(tree: Path, store: str, *, seed: int, seconds: float) -> dict[str, Any]:
        asked.append((tree.name, store, seed, seconds))
        found = ["overlap: two at once"] * (seed == 2)
        return {"verdict": "invalid" if found else "valid", "grants": 9, "findings": found}

    monkeypatch.setattr(mutants.challenge_stores, "run", run)
    results = tmp_path / "results.jsonl"
    arguments = ("--challenge", "--only", "open-door", "--seeds", "1", "2", "3")

    assert play(results, *arguments) == 0
    assert play(results, *arguments) == 0

    assert asked == [("copy 0", "redis", 1, 60.0), ("copy 0", "redis", 2, 60.0)]
    table = "\n".join(mutants.table(mutants.Results(results)))
    assert "| overlap, on redis |" in table
    assert "| `late-door` | All. | not run yet |  | not run yet |  |" in table


# -- a copy ------------------------------------------------------------------------------------


def test_the_processes_of_a_copy_import_the_mutant_in_both_flavours(tmp_path):
    """Otherwise every mutant would survive, or would seem to be caught by a stale file."""
    copy = Copy(tmp_path / "a copy")
    mutant = next(one for one in mutants.MUTANTS if one.name == "trusted-without-end")
    code = (
        "import inspect; from lockfast.client._async.hold import AsyncHold;"
        "from lockfast.client._sync.hold import Hold;"
        "found = [inspect.getsource(one.is_trusted) for one in (AsyncHold, Hold)];"
        "print([one.count('self.until') for one in found])"
    )

    def seen() -> str:
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=copy._environment(), stdout=-1, check=True, text=True)
        return done.stdout.strip()

    found = [seen()]
    with copy.with_mutant(mutant):
        found.append(seen())
    found.append(seen())

    assert found == ["[1, 1]", "[0, 0]", "[1, 1]"]
    assert mutant_copies.ROOT not in copy.folder.parents


# -- the page ----------------------------------------------------------------------------------


def test_the_page_has_no_survivor_that_is_not_explained() -> None:
    unexplained = re.compile(r"\| survived \||not within \d+ runs of \d+ s on \w+ \|")

    assert [row for row in mutants.table() if unexplained.search(row)] == []


def test_a_survivor_of_the_challenge_is_shown_with_its_reason(monkeypatch, tmp_path) -> None:
    results = mutants.Results(tmp_path / "results.jsonl")
    facts = {"judge": "challenge", "store": "redis", "key": "1", "outcome": "survived", "by": ""}
    for name in ("open-door", "late-door"):
        results.add({**facts, "mutant": name, "seed": 1, "seconds": 70})
    known = (one_mutant(), one_mutant("late-door", why_unseen="nobody is late"))
    monkeypatch.setattr(mutants, "MUTANTS", known)

    [open_door, late_door] = list(mutants.table(results))[2:]

    assert "| not within 1 runs of 60 s on redis | 70 |" in open_door
    assert "| not within 1 runs of 60 s on redis: nobody is late | 70 |" in late_door
