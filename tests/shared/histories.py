"""Histories made by hand: operations and holds of clients that saw what a test says."""

from __future__ import annotations

from typing import Any

from lockfast.challenge.history import Event


def told(
    client: str, act: str, began: float, answered: float, number: int, **facts: Any
) -> list[Event]:
    """Return both events of one operation that went well."""
    phase = facts.pop("phase", "ok")
    known = {"hold": facts.pop("hold", number), "name": facts.pop("name", "door")}
    return [
        Event(began, client, act, "invoked", number, **known),
        Event(answered, client, act, phase, number, **known, **facts),
    ]


def held(client: str, asked: float, granted: float, released: float, *, token: int, first: int = 1):
    """Return the events of one hold, checked once half-way."""
    half = (granted + released) / 2
    return [
        *told(client, "acquire", asked, granted, first, token=token),
        *told(client, "check", half, half, first + 1, hold=first),
        *told(client, "release", released, released + 0.01, first + 2, hold=first),
    ]
