"""How much of a door is taken, restated for tests of who is admitted."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockfast.core.admission import Weighed


def occupied(inside: Iterable[Weighed]) -> int:
    """Return the weight inside; the claims of one explicit owner are one hold and count once."""
    alone = 0
    parties: dict[str, int] = {}
    for one in inside:
        if one.party is None:
            alone += one.weight
        else:
            parties[one.party] = max(parties.get(one.party, 0), one.weight)
    return alone + sum(parties.values())
