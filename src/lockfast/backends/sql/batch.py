"""Operations on several names at once."""

from __future__ import annotations

import json
from enum import IntEnum
from json.encoder import encode_basestring_ascii as _quoted
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from lockfast.core.naming import storage_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.sql.statements import StoreStatements
    from lockfast.backends.sql.steps import Rows, Steps
    from lockfast.model import Claim


# Operations for one batch, each on a different name, and the JSON list that passes them to a store.


class OperationKind(IntEnum):
    """What an operation does to a name's row."""

    TAKE = 0
    RELEASE = 1
    RENEW = 2


class Operation(NamedTuple):
    """One operation for one claim.

    `is_known` matters only for TAKE. It means that the name is known to have a row.
    """

    what: OperationKind
    claim: Claim
    is_known: bool = True

    @property
    def batch_key(self) -> str:
        """The claim's name, because one statement can change a name only once."""
        return self.claim.name


def as_json(operations: Sequence[Operation], *, namespace: str) -> str:
    """Return the operations as a JSON list in key order, the order in which every caller locks.

    Values that the statements assume by default are left out, because most of the statements' work
    is reading the list. `ttl` is present for TAKE and RENEW, `client` and `owner` for TAKE only.
    `weight` and `capacity` are present unless both are 1, `lock_delay` and `min_hold` unless both
    are 0, and `party` if the claim has an explicit owner.
    """
    records = [(storage_key(namespace, one.claim.name).hex(), one) for one in operations]
    records.sort(key=itemgetter(0))
    return f"[{','.join([_recorded(one.what, one.claim, key) for key, one in records])}]"


def tokens_in(rows: Rows, operations: Sequence[Operation], *, namespace: str) -> list[int | None]:
    """Return the token of each operation; None for an operation that was not done.

    The store returns one row, key and token, for each operation that was done.
    """
    tokens = {bytes(key): int(token) for key, token in rows}
    return [tokens.get(storage_key(namespace, one.claim.name)) for one in operations]


def _recorded(what: OperationKind, claim: Claim, key: str) -> str:
    # Format the record by hand. Building a dictionary first would take twice as long, for every
    # request.
    record = f'{{"what":{what:d},"key":"{key}","id":{_quoted(claim.id)}'
    if what is OperationKind.RELEASE:
        return record + "}"
    record += f',"ttl":{claim.ttl!r}'
    if what is OperationKind.TAKE:
        record += f',"client":{_quoted(claim.client)},"owner":{_quoted(claim.owner)}'
        if claim.weight != 1 or claim.capacity != 1:
            record += f',"weight":{claim.weight},"capacity":{claim.capacity}'
        if claim.lock_delay or claim.min_hold:
            record += f',"lock_delay":{claim.lock_delay!r},"min_hold":{claim.min_hold!r}'
        if claim.party is not None:
            record += f',"party":{_quoted(claim.party)}'
    return record + "}"


# Acquires several names at once if every door is empty, and otherwise none of them.


class AcquireAll:
    """The steps of `try_acquire_all`, in one transaction."""

    def __init__(self, statements: StoreStatements, *, namespace: str) -> None:
        self._namespace = namespace
        self._statements = statements

    def take(self, claims: Sequence[Claim]) -> Steps[list[int] | None]:
        """Return the token of each claim, or None if one of the doors is not empty."""
        # Lock the names in key order, like all code that locks several names, because otherwise two
        # transactions could deadlock.
        in_order = sorted(storage_key(self._namespace, one.name) for one in claims)
        keys = json.dumps([key.hex() for key in in_order])
        _, empty = yield [self._statements.make(keys), self._statements.lock_empty(keys)]
        if len(empty) < len(claims):
            return None
        answers = yield [self._statements.take(one) for one in claims]
        tokens = [self._statements.token_in(rows) for rows in answers]
        return [one for one in tokens if one is not None]
