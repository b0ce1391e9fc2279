"""What an inspection looks like: as a table's rows, and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.cli.screen import plain, table
from holdfast.cli.wording import closed, duration
from holdfast.model import ALL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.table import Table
    from rich.text import Text

    from holdfast import Holder, Inspection, Owner


def overview(seen: Iterable[Inspection]) -> Table:
    """Return one row per holder, with the length of the line behind the first."""
    rows = table("NAME", "HELD BY", "FOR", "TOKEN", "WAITING")
    rows.columns[2].no_wrap = rows.columns[3].no_wrap = True
    for one in seen:
        first = [plain(one.name, "bold")], [str(len(one.line) or "")]
        for cells in _cells(one):
            name, waiting = (column.pop() if column else "" for column in first)
            rows.add_row(name, *cells, waiting)
    return rows


def _cells(seen: Inspection) -> Iterator[tuple[Text, str, str]]:
    for holder in seen.holders:
        yield plain(str(holder.owner)), _age(holder), _token(holder)
    if not seen.holders or seen.closing:
        yield plain(closed(seen) or "nobody", "dim"), "", ""


def details(seen: Inspection) -> Table:
    """Return all that the store says of one name, the line included."""
    rows = table("", "OWNER", "FOR", "TOKEN", "ENDS IN")
    for holder in seen.holders:
        ends_in = "" if holder.remaining is None else duration(holder.remaining)
        weight = "" if holder.weight == 1 else f" {_weight(holder.weight)}"
        rows.add_row(
            plain("holds" + weight, "green"),
            plain(str(holder.owner)),
            _age(holder),
            _token(holder),
            ends_in,
        )
    for closing in seen.closing:
        ends_in = duration(closing.remaining)
        rows.add_row(plain("closed", "dim"), plain(f"after {closing.owner}"), "", "", ends_in)
    for waiter in seen.line:
        place = plain(f"waits {waiter.place}", "yellow")
        rows.add_row(place, plain(str(waiter.owner)), duration(waiter.age), "", "")
    return rows


def kind(capacity: int) -> str:
    """Return what sort of lock has this capacity."""
    if capacity == ALL:
        return "read-write lock"
    return "lock" if capacity <= 1 else f"semaphore of {capacity}"


def as_fields(seen: Inspection) -> dict[str, Any]:
    """Return the inspection for JSON."""
    return {
        "name": seen.name,
        "capacity": "all" if seen.capacity == ALL else seen.capacity,
        "holders": [holder_fields(one) for one in seen.holders],
        "line": [
            {
                "place": one.place,
                "weight": _weight(one.weight),
                "age": one.age,
                **_owner_fields(one.owner),
            }
            for one in seen.line
        ],
        "last_token": seen.last_token,
        "closed_for": seen.closed_for,
        "closing": [
            {
                "weight": _weight(one.weight),
                "remaining": one.remaining,
                **_owner_fields(one.owner),
            }
            for one in seen.closing
        ],
    }


def holder_fields(holder: Holder) -> dict[str, Any]:
    """Return the holder for JSON."""
    return {
        **_owner_fields(holder.owner),
        "token": holder.token,
        "weight": _weight(holder.weight),
        "age": holder.age,
        "remaining": holder.remaining,
    }


def _owner_fields(owner: Owner) -> dict[str, Any]:
    return {
        "host": owner.host,
        "pid": owner.pid or None,
        "context": owner.context,
        "label": owner.label,
    }


def _weight(weight: int) -> int | str:
    return "all" if weight == ALL else weight


def _age(holder: Holder) -> str:
    return "" if holder.age is None else duration(holder.age)


def _token(holder: Holder) -> str:
    return "" if holder.token is None else str(holder.token)
