"""What goes together, each for another name; and how a store is told of it, as one JSON list."""

from __future__ import annotations

import json
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.naming import storage_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.backends.sql.steps import Rows
    from holdfast.model import Claim


class What(IntEnum):
    """What is done to a name's row."""

    TAKE = 0
    RELEASE = 1
    RENEW = 2


class Deed(NamedTuple):
    """One thing to do for one claim; who takes a name says whether it is known."""

    what: What
    claim: Claim
    is_known: bool = True


def as_json(deeds: Sequence[Deed], *, namespace: str) -> str:
    """Return them as a list in the order of their keys, in which all lock several names.

    Without what the statements assume: most of their work is to read this. A `ttl` is told of
    what is taken or renewed, `client` and `owner` of what is taken; a weight and a capacity
    other than 1, a `lock_delay` and a `min_hold` other than 0, and a `party` where there is one.
    """
    records = [_recorded(what, claim, namespace) for what, claim, _ in deeds]
    return json.dumps(sorted(records, key=_key_in))


def tokens_in(rows: Rows, deeds: Sequence[Deed], *, namespace: str) -> list[int | None]:
    """Return the token of each that was done, None for each that was not.

    There is a row for each that was done: its key and its token.
    """
    tokens = {bytes(key): int(token) for key, token in rows}
    return [tokens.get(storage_key(namespace, one.claim.name)) for one in deeds]


def _key_in(record: dict[str, object]) -> str:
    return str(record["key"])


def _recorded(what: What, claim: Claim, namespace: str) -> dict[str, object]:
    record: dict[str, object] = {
        "what": int(what),
        "key": storage_key(namespace, claim.name).hex(),
        "id": claim.id,
    }
    if what is not What.RELEASE:
        record["ttl"] = claim.ttl
    if what is What.TAKE:
        record["client"], record["owner"] = claim.client, claim.owner
        if claim.weight != 1 or claim.capacity != 1:
            record["weight"], record["capacity"] = claim.weight, claim.capacity
        if claim.lock_delay or claim.min_hold:
            record["lock_delay"], record["min_hold"] = claim.lock_delay, claim.min_hold
        if claim.party is not None:
            record["party"] = claim.party
    return record
