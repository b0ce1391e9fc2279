"""What goes together, each for another name; and how a store is told of it, as one JSON list."""

from __future__ import annotations

from enum import IntEnum
from json.encoder import encode_basestring_ascii as _quoted
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from lockfast.core.naming import storage_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.sql.steps import Rows
    from lockfast.model import Claim


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

    @property
    def apart(self) -> str:
        """One statement does no two things to a name."""
        return self.claim.name


def as_json(deeds: Sequence[Deed], *, namespace: str) -> str:
    """Return them as a list in the order of their keys, in which all lock several names.

    Without what the statements assume: most of their work is to read this. A `ttl` is told of
    what is taken or renewed, `client` and `owner` of what is taken; a weight and a capacity
    other than 1, a `lock_delay` and a `min_hold` other than 0, and a `party` where there is one.
    """
    records = [(storage_key(namespace, one.claim.name).hex(), one) for one in deeds]
    records.sort(key=itemgetter(0))
    return f"[{','.join([_recorded(one.what, one.claim, key) for key, one in records])}]"


def tokens_in(rows: Rows, deeds: Sequence[Deed], *, namespace: str) -> list[int | None]:
    """Return the token of each that was done, None for each that was not.

    There is a row for each that was done: its key and its token.
    """
    tokens = {bytes(key): int(token) for key, token in rows}
    return [tokens.get(storage_key(namespace, one.claim.name)) for one in deeds]


def _recorded(what: What, claim: Claim, key: str) -> str:
    # Written out: by way of a dictionary it takes twice as long, and each request pays for it.
    record = f'{{"what":{what:d},"key":"{key}","id":{_quoted(claim.id)}'
    if what is What.RELEASE:
        return record + "}"
    record += f',"ttl":{claim.ttl!r}'
    if what is What.TAKE:
        record += f',"client":{_quoted(claim.client)},"owner":{_quoted(claim.owner)}'
        if claim.weight != 1 or claim.capacity != 1:
            record += f',"weight":{claim.weight},"capacity":{claim.capacity}'
        if claim.lock_delay or claim.min_hold:
            record += f',"lock_delay":{claim.lock_delay!r},"min_hold":{claim.min_hold!r}'
        if claim.party is not None:
            record += f',"party":{_quoted(claim.party)}'
    return record + "}"
