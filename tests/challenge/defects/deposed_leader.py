"""A heartbeat of a ZooKeeper session without the confirmation of a quorum.

A deposed leader that does not yet know of its successor still answers a `sync`, so its client
trusts a session that the next leader has ended. The fix is a transaction
(docs/decisions/0008-what-proves-a-session.md).
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from challenge.defects.putting_back import Defective, instead

from lockfast.backends.zookeeper import requests
from lockfast_challenge.clients.lockfast_locks import SyncContender


def defect() -> AbstractContextManager[None]:
    """Accept a `sync` as proof that the session is alive."""
    return instead(requests, "Confirm", requests.Sync)


class Contender(Defective, SyncContender):
    defect = staticmethod(defect)
