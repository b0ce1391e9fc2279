"""Why a lease expired, according to the background's own wakeups and the store's replies."""

from __future__ import annotations

import pytest

from lockfast.core.renewal import cause_of_expiry
from lockfast.model import FOREVER

STANDSTILL_TEXT = "we stood still for {seconds:.1f} s"


@pytest.mark.parametrize(
    ("facts", "cause"),
    [
        pytest.param({"wakes_at": 5.0, "due": 5.0}, "we stood still for 5.0 s", id="frozen"),
        pytest.param(
            {"wakes_at": FOREVER, "due": 6.0},
            "we stood still for 4.0 s",
            id="frozen before the background had begun",
        ),
        pytest.param(
            {"wakes_at": 10.0, "due": 7.0, "asked_at": 7.0},
            "the store did not answer for 3.0 s",
            id="a silent store",
        ),
        pytest.param(
            {"wakes_at": 9.0, "due": 1.0, "asked_at": 1.0},
            "the store did not answer for 9.0 s",
            id="a silent store, and a busy machine",
        ),
        pytest.param(
            {"wakes_at": 2.0, "due": 1.0, "asked_at": 1.0},
            "we stood still for 8.0 s",
            id="frozen while a renewal was under way",
        ),
        pytest.param({"wakes_at": FOREVER, "due": FOREVER}, "", id="nobody meant to renew it"),
        pytest.param({"wakes_at": 9.9, "due": 9.9}, "", id="hardly late"),
    ],
)
def test_the_cause_of_an_expiry(facts, cause):
    found = cause_of_expiry(
        **{"now": 10.0, "asked_at": None, "standstill_text": STANDSTILL_TEXT, **facts}
    )

    assert found == cause
