"""What clients did and what they saw of it: one line of JSON per event, in each client's order.

An operation is two events, one before it is asked for and one when it is answered. A client that
was killed in between leaves the first alone: nobody knows what became of it.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Act = Literal["acquire", "check", "release"]
"""`check` asks the lease itself whether it may still be acted upon."""

Phase = Literal["invoked", "ok", "fail", "unknown"]
"""`fail` is a definite no: it was refused, or the lease was known to be over."""


class NotAHistory(ValueError):
    """A line, or the order of some lines, that no client can have written."""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that one client saw, at a time of a clock that all clients of a run share."""

    at: float
    client: str
    act: Act
    phase: Phase
    number: int
    """Which operation of this client it belongs to."""
    hold: int
    """Which hold it is about: the number of the operation that acquired it."""
    name: str
    weight: int = 1
    capacity: int = 1
    token: int | None = None
    within: int | None = None
    """The hold of the same client that it entered again, if it did."""
    reason: str = ""
    deadline: float | None = None
    """Until when the lease says that it may be acted upon, where it says so.

    By the clock of `at`, and read after it was asked, so that who is frozen in between writes down
    a later one and accuses nobody.
    """

    def line(self) -> str:
        """Return it as one line of JSON; what is as usual is left out."""
        kept = {
            key: value for key, value in asdict(self).items() if value != _USUAL.get(key, _NONE)
        }
        return json.dumps(kept, separators=(",", ":"))


_NONE = object()
_USUAL: dict[str, Any] = {
    field.name: field.default for field in fields(Event) if field.default is not MISSING
}
_FIELDS = {field.name for field in fields(Event)}


def read(lines: Iterable[str]) -> Iterator[Event]:
    """Yield the events of a history; a last line that was cut off by a kill is left out."""
    cut: str | None = None
    for number, line in enumerate(lines, 1):
        if cut is not None:
            raise NotAHistory(cut)
        try:
            said = json.loads(line)
        except ValueError:
            cut = f"line {number} is not JSON: {line.strip()[:60]!r}"
            continue
        if not isinstance(said, dict) or not said.keys() <= _FIELDS:
            raise NotAHistory(f"line {number} is no event: {line.strip()[:60]!r}")
        try:
            yield Event(**said)
        except TypeError as error:
            raise NotAHistory(f"line {number} is no event: {error}") from error


def begun_since(events: Sequence[Event], at: float) -> list[Event]:
    """Return the events of the operations that were asked for at that time or later."""
    begun = {(one.client, one.number) for one in events if one.phase == "invoked" and one.at >= at}
    return [one for one in events if (one.client, one.number) in begun]


@dataclass(frozen=True, slots=True)
class Operation:
    """Both events of one operation; `answered` is None where nobody knows what became of it."""

    client: str
    act: Act
    number: int
    hold: int
    name: str
    invoked: float
    answered: float | None
    is_ok: bool
    weight: int = 1
    capacity: int = 1
    token: int | None = None
    within: int | None = None
    reason: str = ""
    deadline: float | None = None


def operations(events: Iterable[Event]) -> list[Operation]:
    """Return the operations by the time at which they were asked for.

    Raises NotAHistory for an answer that nobody asked for, and for one given twice.
    """
    begun: dict[tuple[str, int], Event] = {}
    found: list[Operation] = []
    for event in events:
        key = (event.client, event.number)
        if event.phase == "invoked":
            if key in begun:
                raise NotAHistory(f"client {event.client} began operation {event.number} twice")
            begun[key] = event
            continue
        first = begun.get(key)
        if first is None or first.act != event.act:
            raise NotAHistory(
                f"client {event.client} had no operation {event.number} to be answered"
            )
        if event.at < first.at:
            raise NotAHistory(f"client {event.client}: the clock went back at {event.number}")
        found.append(_operation(first, event))
        del begun[key]
    found.extend(_operation(first, None) for first in begun.values())
    return sorted(found, key=lambda one: one.invoked)


def _operation(first: Event, last: Event | None) -> Operation:
    known = last is not None and last.phase != "unknown"
    return Operation(
        client=first.client,
        act=first.act,
        number=first.number,
        hold=first.hold,
        name=first.name,
        invoked=first.at,
        answered=last.at if last is not None and known else None,
        is_ok=last is not None and last.phase == "ok",
        weight=first.weight,
        capacity=first.capacity,
        token=None if last is None else last.token,
        within=first.within,
        reason="" if last is None else last.reason,
        deadline=None if last is None else last.deadline,
    )
