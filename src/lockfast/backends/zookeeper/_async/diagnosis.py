"""Asks the members of an ensemble about themselves; what it means is decided in `findings`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockfast.backends.zookeeper import four_letter_words
from lockfast.backends.zookeeper.findings import Facts, findings
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.zookeeper.address import Address
    from lockfast.model import Finding

SLOWEST = 1.0
"""A member that has not answered a word by then is called silent."""


async def diagnosed(
    address: Address,
    acl: Sequence[Any] | None,
    *,
    asked: float,
    granted: float,
    seconds: float,
) -> list[Finding]:
    """Return what the ensemble can promise; what may not be read is a note, and no error."""
    # The members are asked beside the session, and on a thread: it is rare, and blocks.
    worker = runtime.Worker("lockfast-doctor")
    try:
        members = await worker.run(
            four_letter_words.ask_all, address.options, seconds=min(seconds, SLOWEST)
        )
    finally:
        await worker.stop()
    facts = Facts(
        where=address.where,
        root=address.root,
        members=members,
        asked=asked,
        granted=granted,
        acl=acl,
    )
    return findings(facts)
