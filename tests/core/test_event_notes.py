"""Notes become events, events become notes, and observers receive them by name."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from lockfast import events
from lockfast.core.event_notes import (
    LOG_LEVELS,
    OBSERVER_METHODS,
    EventNote,
    EventObserver,
    dispatch,
    event_of,
    note_of,
)
from lockfast.events import Acquired, Event, Lost, Released

EVENTS = [
    one
    for one in vars(events).values()
    if isinstance(one, type) and issubclass(one, Event) and one is not Event
]


def own_fields(kind: type[Event]) -> list[str]:
    return [one for one in kind.__dataclass_fields__ if one not in Event.__dataclass_fields__]


def test_every_event_has_a_log_level_and_a_method() -> None:
    assert set(LOG_LEVELS) == set(OBSERVER_METHODS) == set(EVENTS)


@pytest.mark.parametrize("kind", EVENTS)
def test_an_observer_receives_the_fields_of_an_event_in_their_order(kind: type[Event]) -> None:
    """Facts are passed by position, so the order of the parameters is the order of the fields."""
    method = getattr(EventObserver, OBSERVER_METHODS[kind])

    assert list(inspect.signature(method).parameters) == ["self", "note", *own_fields(kind)]


@pytest.mark.parametrize("lock_kind", ["lock", "semaphore", "read", "write"])
@pytest.mark.parametrize("kind", EVENTS)
def test_an_event_survives_the_way_through_a_note(kind: Any, lock_kind: str) -> None:
    facts = [f"the {one}" for one in own_fields(kind)]
    event = kind("x", 7, "me", *facts, kind=lock_kind, store="memory", claim="c1", at=5.0)

    assert event_of(note_of(event), owner="me", store="memory") == event


def test_an_observer_is_called_only_for_what_it_wants() -> None:
    class Holds(EventObserver):
        def __init__(self) -> None:
            self.seen: list[tuple[str, float]] = []

        def released(self, note: EventNote, held: float, /) -> None:
            self.seen.append((note.claim.name, held))

    observer = Holds()

    for event in (
        Acquired("x", 1, "me", 0.5),
        Released("x", 1, "me", 2.0),
        Lost("y", 2, "me", "taken"),
        Event("z", 3, "me"),
    ):
        dispatch(note_of(event), observer)

    assert observer.seen == [("x", 2.0)]
