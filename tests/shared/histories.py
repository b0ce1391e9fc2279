"""Hand-written histories: operations and holds of clients, as a test describes them."""

from __future__ import annotations

from typing import Any

from lockfast_challenge.history import HistoryEvent


def told(
    client: str, act: str, began: float, answered: float, number: int, **facts: Any
) -> list[HistoryEvent]:
    """Return both events of one successful operation."""
    phase = facts.pop("phase", "ok")
    known = {"hold": facts.pop("hold", number), "name": facts.pop("name", "door")}
    return [
        HistoryEvent(began, client, act, "invoked", number, **known),
        HistoryEvent(answered, client, act, phase, number, **known, **facts),
    ]


def held(client: str, asked: float, granted: float, released: float, *, token: int, first: int = 1):
    """Return the events of one hold, checked once half-way."""
    half = (granted + released) / 2
    return [
        *told(client, "acquire", asked, granted, first, token=token),
        *told(client, "check", half, half, first + 1, hold=first),
        *told(client, "release", released, released + 0.01, first + 2, hold=first),
    ]
