"""Several names at once: all of them, if nobody is at any of their doors, or none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lockfast.core.naming import storage_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.sql.statements import Statements
    from lockfast.backends.sql.steps import Steps
    from lockfast.model import Claim


class TakingAll:
    """The steps of it, in one transaction."""

    def __init__(self, statements: Statements, *, namespace: str) -> None:
        self._namespace = namespace
        self._statements = statements

    def take(self, claims: Sequence[Claim]) -> Steps[list[int] | None]:
        """Return the token of each claim, or None if somebody is at one of the doors."""
        # In the order of their keys, as everybody who locks several: else two would wait for each
        # other.
        in_order = sorted(storage_key(self._namespace, one.name) for one in claims)
        keys = json.dumps([key.hex() for key in in_order])
        _, empty = yield [self._statements.make(keys), self._statements.lock_empty(keys)]
        if len(empty) < len(claims):
            return None
        answers = yield [self._statements.take(one) for one in claims]
        tokens = [self._statements.token_in(rows) for rows in answers]
        return [one for one in tokens if one is not None]
