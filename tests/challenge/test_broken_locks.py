"""The challenge finds what is wrong with each broken lock, and nothing wrong with correct ones."""

from __future__ import annotations

import pytest

from lockfast_challenge.broken.catching import caught, spared_once
from lockfast_challenge.broken.registry import FLAWS

WITHIN = 120.0
"""On an otherwise idle machine, two to eight seconds are enough, as `make challenge` measures."""
GRANTS = 10
SCHEDULES = {flaw.schedule: flaw for flaw in FLAWS}


@pytest.mark.parametrize("flaw", FLAWS, ids=lambda flaw: flaw.name)
def test_what_is_wrong_with_a_broken_lock_is_found(flaw, tmp_path):
    """One run with the first seed finds the defect; `make challenge` tries twenty seeds."""
    outcome = caught(flaw, 1, within=WITHIN, folder=tmp_path)

    assert outcome.verdict == "invalid"
    assert flaw.kind in {finding.kind for finding in outcome.findings}


@pytest.mark.parametrize("flaw", SCHEDULES.values(), ids=lambda flaw: flaw.name)
def test_nothing_is_found_wrong_with_a_right_lock(flaw, tmp_path):
    """The correct lock passes under the same faults.

    The run ends early: only `make challenge` goes on to the long quiet stretch.
    """
    outcome = spared_once(flaw, 1, grants=GRANTS, within=WITHIN, folder=tmp_path)

    assert outcome.verdict == "valid", outcome.findings
    assert {strike.kind for strike in outcome.strikes} <= set(flaw.schedule.faults)
    assert bool(outcome.strikes) == bool(flaw.schedule.faults)


def test_each_of_the_ten_is_there_and_one_has_three_flaws():
    numbers = [flaw.number for flaw in FLAWS]

    assert sorted(set(numbers)) == list(range(1, 11))
    assert [flaw.name for flaw in FLAWS if flaw.number == 2] == [
        "clocks-apart",
        "date-overwritten",
        "anybody-unlocks",
    ]
