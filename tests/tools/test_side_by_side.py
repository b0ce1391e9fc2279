"""Tests are divided among workers, and tests that belong together stay together."""

from __future__ import annotations

import os
import tempfile
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest
import side_by_side
from side_by_side import ALONE, BY_CLASS, EARLY, SEATED, LongestFirst

from lockfast_challenge.processes import EVENTUALLY_SECONDS

ROOT = Path(__file__).parent.parent.parent


class Handed(LongestFirst):
    """Records what would be handed out next, and hands out nothing."""

    def __init__(self, *tests: str) -> None:
        units: dict[str, dict[str, bool]] = {}
        for one in tests:
            units.setdefault(self._split_scope(one), {})[one] = False
        self.workqueue = OrderedDict(units)

    def order(self) -> list[str]:
        found = []
        while self.workqueue:
            found.append(min(self.workqueue, key=self._rank))
            del self.workqueue[found[-1]]
        return found


def test_the_tests_of_a_file_stay_together():
    handed = Handed(
        "tests/backends/redis/test_wire.py::test_one",
        "tests/backends/redis/test_wire.py::TestTwo::test",
    )

    assert handed.order() == ["tests/backends/redis/test_wire.py"]


def test_tests_with_a_store_of_their_own_are_handed_out_one_by_one():
    tests = ["tests/cli/test_run.py::test_one", "tests/cli/test_run.py::test_two"]

    assert Handed(*tests).order() == tests


@pytest.mark.parametrize("file", BY_CLASS)
def test_the_classes_of_a_file_that_waits_for_minutes_are_handed_out_each_by_itself(file):
    tests = [
        f"{file}::{kind}::test_law_{law}" for kind in ("TestAsync", "TestSync") for law in "12"
    ]

    assert Handed(*tests).order() == [f"{file}::TestAsync", f"{file}::TestSync"]


def test_what_takes_longest_begins_first():
    handed = Handed(
        "tests/input/test_names.py::test_one",
        "tests/shell/test_ending.py::test_one",
        "tests/shell/test_ending.py::test_two",
        "tests/backends/mysql/test_contract.py::TestSync::test_law",
    )

    assert handed.order() == [
        "tests/backends/mysql/test_contract.py",
        "tests/shell/test_ending.py",
        "tests/input/test_names.py",
    ]


@pytest.mark.parametrize("start", [*ALONE, *BY_CLASS, *EARLY])
def test_what_is_named_is_there(start):
    path, _, name = start.partition("::")

    assert (ROOT / path).exists()
    assert not name or f"def {name}" in (ROOT / path).read_text()


# -- several runs at once ------------------------------------------------------------------


def test_all_runs_together_have_no_more_seats_than_one(monkeypatch, tmp_path):
    """Tests of other runs wait for a seat, until a test ends or its worker is killed."""
    monkeypatch.setattr(side_by_side, "number_of_workers", lambda: 2)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv(SEATED)
    first, second = side_by_side.free_seat(), side_by_side.free_seat()
    with ThreadPoolExecutor(1) as threads:
        third = threads.submit(side_by_side.free_seat)
        is_seated_too_early = bool(wait([third], timeout=0.2).done)

        first.close()

        third.result(EVENTUALLY_SECONDS).close()
    second.close()
    assert not is_seated_too_early


def test_each_further_run_leaves_fewer_seats(monkeypatch, tmp_path):
    """The servers of a further run need processor time too; the run counts until it ends."""
    monkeypatch.setattr(side_by_side, "number_of_workers", lambda: 10)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv(SEATED)
    seats = [side_by_side.number_of_seats()]
    runs = []
    for _ in range(5):
        runs.append(side_by_side.take_part())
        seats.append(side_by_side.number_of_seats())
    for one in runs[1:]:
        one.close()

    assert seats == [10, 10, 8, 6, 4, 4]
    assert side_by_side.number_of_seats() == 10
    runs[0].close()


def test_what_a_test_runs_is_no_run_of_its_own():
    assert SEATED in os.environ
    assert side_by_side.take_part() is None


def test_tests_that_a_test_runs_need_no_seat(monkeypatch):
    monkeypatch.setattr(side_by_side, "free_seat", None)

    assert SEATED in os.environ
    with side_by_side.a_seat():
        assert SEATED in os.environ
