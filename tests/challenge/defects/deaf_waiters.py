"""The background of those who wait at Redis, which ends at the first error and is not missed.

Whoever waits is then rung by nobody: it gets in only if the name is free in the moment it asks. The
mend is a background that outlives every error, and that is begun anew where it has ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from challenge.defects.putting_back import Defective, instead

from lockfast.backends.redis._sync.waiting import InboxRun, RedisInbox
from lockfast_challenge.clients.lockfast_locks import SyncContender


def _until_an_error(inbox: RedisInbox, run: InboxRun) -> None:
    run.has_begun = True
    while inbox._listen(run):
        pass


def _has_begun(run: InboxRun) -> bool:
    return run.task is not None


@contextmanager
def defect() -> Iterator[None]:
    """Let an error end it, and whoever waits believe that it listens."""
    with instead(RedisInbox, "_run", _until_an_error), instead(InboxRun, "is_alive", _has_begun):
        yield


class Contender(Defective, SyncContender):
    defect = staticmethod(defect)
