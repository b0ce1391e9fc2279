# Generated from src/holdfast/backends/zookeeper/_async/diagnosis.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Asks an ensemble about itself; what the answers mean is decided in `findings`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kazoo.exceptions import KazooException

from holdfast.backends.zookeeper import four_letter_words, refusals, requests
from holdfast.backends.zookeeper.findings import Facts, findings
from holdfast.runtime import threads as runtime

if TYPE_CHECKING:
    from holdfast.backends.zookeeper._sync.session import Session
    from holdfast.backends.zookeeper.address import Address
    from holdfast.model import Finding

SLOWEST = 1.0
"""A member that has not answered a word by then is called silent."""


def diagnosed(
    session: Session, address: Address, *, seconds: float, deadline: float
) -> list[Finding]:
    """Return what the ensemble can promise; what may not be read is a note, and no error."""
    [answer] = session.wire.ask(requests.GetACL(address.root), deadline=deadline)
    acl = None if isinstance(answer, KazooException) else answer[0]
    if refusals.is_missing(answer):
        acl = address.acl
    # The members are asked beside the session, and on a thread: it is rare, and blocks.
    worker = runtime.Worker("holdfast-doctor")
    try:
        members = worker.run(
            four_letter_words.ask_all, address.options, seconds=min(seconds, SLOWEST)
        )
    finally:
        worker.stop()
    facts = Facts(
        where=address.where,
        root=address.root,
        members=members,
        asked=session.asked,
        granted=session.ttl,
        acl=acl,
    )
    return findings(facts)
