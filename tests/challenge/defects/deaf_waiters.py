"""The listener for waiters on Redis ends at the first error, and its end goes unnoticed.

Waiters then receive no wakeups: a waiter gets the lock only if the name happens to be free when it
asks. The fix is a listener that survives every error, and that is restarted if it has ended. A
second fix, waiters that poll while there is no subscription, is undone too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from challenge.defects.putting_back import Defective, instead

from lockfast.backends.waiting._sync.background import Background, BackgroundRun
from lockfast.backends.waiting._sync.inbox import Inbox
from lockfast.model import Claim
from lockfast_challenge.clients.lockfast_locks import SyncContender


def _until_an_error(background: Background, run: BackgroundRun) -> None:
    run.has_begun = True
    while background._work(run):
        pass


def _wait_for_a_wakeup(inbox: Inbox[Any], claim: Claim, *, deadline: float) -> None:
    for one in inbox.receivers:
        one.background.is_running()
    inbox._wakeups.wait(claim.id, deadline=deadline)


def _has_begun(run: BackgroundRun) -> bool:
    return run.task is not None


@contextmanager
def defect() -> Iterator[None]:
    """Make an error end the listener, while waiters believe that it still listens."""
    with (
        instead(Background, "_run", _until_an_error),
        instead(BackgroundRun, "is_alive", _has_begun),
        instead(Inbox, "wait", _wait_for_a_wakeup),
    ):
        yield


class Contender(Defective, SyncContender):
    defect = staticmethod(defect)
