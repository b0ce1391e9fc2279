"""What an inspection looks like: of one name in every detail, and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockfast.cli.screen import plain, table
from lockfast.model import ALL
from lockfast.observe.durations import duration

if TYPE_CHECKING:
    from rich.table import Table

    from lockfast import Holder, Inspection, Owner


def details(seen: Inspection) -> Table:
    """Return all that the store says of one name, the line included."""
    rows = table("", "OWNER", "FOR", "TOKEN", "ENDS IN")
    for holder in seen.holders:
        ends_in = "" if holder.remaining is None else duration(holder.remaining)
        rows.add_row(
            plain(_verb(holder.weight, seen.capacity), "green"),
            plain(str(holder.owner)),
            duration(holder.age),
            _token(holder),
            ends_in,
        )
    for closing in seen.closing:
        ends_in = duration(closing.remaining)
        rows.add_row(plain("closed", "dim"), plain(f"after {closing.owner}"), "", "", ends_in)
    for waiter in seen.line:
        to_do = {"reader": " to read", "writer": " to write"}
        wish = to_do.get(role(waiter.weight, seen.capacity), "")
        place = plain(f"waits {waiter.place}{wish}", "yellow")
        rows.add_row(place, plain(str(waiter.owner)), duration(waiter.age), "", "")
    return rows


def kind(capacity: int) -> str:
    """Return what sort of lock has this capacity."""
    return "read-write lock" if capacity == ALL else role(None, capacity)


def role(weight: int | None, capacity: int) -> str:
    """Return what one who has this weight is to the lock, in a word or two; None is nobody."""
    if capacity == ALL and weight is not None:
        return "writer" if weight == ALL else "reader"
    return _KINDS[kind_word(capacity)].format(capacity)


_KINDS = {"rwlock": "rwlock", "lock": "lock", "semaphore": "semaphore of {}"}


def kind_word(capacity: int) -> str:
    """Return what sort of lock has this capacity, as its method is called."""
    if capacity == ALL:
        return "rwlock"
    return "lock" if capacity <= 1 else "semaphore"


def _verb(weight: int, capacity: int) -> str:
    if capacity == ALL:
        return "writes" if weight == ALL else "reads"
    return "holds" if weight == 1 else f"holds {weight}"


def as_fields(seen: Inspection) -> dict[str, Any]:
    """Return the inspection for JSON."""
    return {
        "name": seen.name,
        "kind": kind_word(seen.capacity),
        "capacity": "all" if seen.capacity == ALL else seen.capacity,
        "holders": [holder_fields(one) for one in seen.holders],
        "line": [
            {
                "place": one.place,
                "weight": _weight(one.weight),
                "age": one.age,
                **owner_fields(one.owner),
            }
            for one in seen.line
        ],
        "last_token": seen.last_token,
        "closed_for": seen.closed_for,
        "closing": [
            {
                "weight": _weight(one.weight),
                "remaining": one.remaining,
                **owner_fields(one.owner),
            }
            for one in seen.closing
        ],
    }


def holder_fields(holder: Holder) -> dict[str, Any]:
    """Return the holder for JSON."""
    return {
        **owner_fields(holder.owner),
        "token": holder.token,
        "weight": _weight(holder.weight),
        "age": holder.age,
        "remaining": holder.remaining,
    }


def owner_fields(owner: Owner) -> dict[str, Any]:
    """Return the owner for JSON."""
    return {
        "host": owner.host,
        "pid": owner.pid or None,
        "context": owner.context,
        "label": owner.label,
    }


def _weight(weight: int) -> int | str:
    return "all" if weight == ALL else weight


def _token(holder: Holder) -> str:
    return "" if holder.token is None else str(holder.token)
