"""The documents that `--json` writes: their fields and their format."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lockfast.cli.text import kind_word
from lockfast.model import ALL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockfast import Holder, Inspection, Owner
    from lockfast.cli.deadlocks import Cycle


def write_json(answer: object) -> None:
    """Write one JSON document to stdout."""
    print(json.dumps(answer, indent=2, ensure_ascii=False))


def as_fields(seen: Inspection) -> dict[str, Any]:
    """Return the fields of an inspection."""
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
    """Return the fields of a holder."""
    return {
        **owner_fields(holder.owner),
        "token": holder.token,
        "weight": _weight(holder.weight),
        "age": holder.age,
        "remaining": holder.remaining,
    }


def owner_fields(owner: Owner) -> dict[str, Any]:
    """Return the fields of an owner."""
    return {
        "host": owner.host,
        "pid": owner.pid or None,
        "context": owner.context,
        "label": owner.label,
    }


def _weight(weight: int) -> int | str:
    return "all" if weight == ALL else weight


def cycle_fields(cycle: Cycle) -> list[dict[str, Any]]:
    """Return the fields of a cycle: each owner waits for the next one, the last for the first."""
    return [
        {"waits_for": one.name, "behind_a_waiter": one.is_ahead, **owner_fields(one.who)}
        for one in cycle
    ]


def listing_fields(store: str, seen: Iterable[Inspection]) -> dict[str, object]:
    """Return the fields of a list of names."""
    return {"store": store, "locks": [as_fields(one) for one in seen]}
