"""Several names at once: all of them, if nobody is at any of their doors, or none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from holdfast.backends.postgresql.schema import CLAIM
from holdfast.backends.sql.steps import Ask, AskMany
from holdfast.core.naming import storage_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.backends.postgresql.schema import Tables
    from holdfast.backends.postgresql.statements import Statements
    from holdfast.backends.sql.steps import Steps
    from holdfast.model import Claim

# In the order of their keys, as everybody who locks several: else two would wait for each other.
_MAKE = f"""
INSERT INTO {{door}} (key, {", ".join(CLAIM)}, capacity, last_token, crowd, head)
SELECT decode(k, 'hex'), '', '', '', NULL, 0, 0, 0, 0, 0, 0, 0, 0, '', 0, 0, 0, 0
FROM json_array_elements_text($1::json) AS k ORDER BY 1
ON CONFLICT (key) DO NOTHING
"""
_LOCK_EMPTY = """
SELECT key FROM {door}
WHERE key IN (SELECT decode(k, 'hex') FROM json_array_elements_text($1::json) AS k)
    AND id = '' AND crowd = 0
ORDER BY key FOR UPDATE
"""


class TakingAll:
    """The steps of it, in one transaction."""

    def __init__(self, tables: Tables, statements: Statements, *, namespace: str) -> None:
        self._namespace = namespace
        self._statements = statements
        self._make, self._lock_empty = (
            one.format(door=tables.door) for one in (_MAKE, _LOCK_EMPTY)
        )

    def take(self, claims: Sequence[Claim]) -> Steps[list[int] | None]:
        """Return the token of each claim, or None if somebody is at one of the doors."""
        keys = json.dumps([storage_key(self._namespace, one.name).hex() for one in claims])
        _, empty = yield [AskMany(self._make, [(keys,)]), Ask(self._lock_empty, (keys,))]
        if len(empty) < len(claims):
            return None
        answers = yield [self._statements.take(one) for one in claims]
        return [token for [(token,)] in answers]
