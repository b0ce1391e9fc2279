"""A doorbell for each claim, which stays open when the claim is granted at once.

So each acquire of a shared lock leaked a descriptor for the lifetime of the client. The fix is one
doorbell for all claims of a client, from which each claim is removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from challenge.defects.putting_back import Defective, instead

from lockfast.backends.sqlite.doorbell import Doorbell, Socket
from lockfast_challenge.clients.lockfast_locks import SyncContender


@contextmanager
def defect() -> Iterator[None]:
    """Open a socket for each claim, and keep it until its client is closed."""
    hang, close = Doorbell.hang, Doorbell.close
    hung: dict[Doorbell, list[Socket]] = {}

    def hang_one(bell: Doorbell, claim_id: str) -> str:
        hung.setdefault(bell, []).append(Socket())
        return hang(bell, claim_id)

    def close_all(bell: Doorbell) -> None:
        for one in hung.pop(bell, []):
            one.close()
        close(bell)

    with instead(Doorbell, "hang", hang_one), instead(Doorbell, "close", close_all):
        yield


class Contender(Defective, SyncContender):
    defect = staticmethod(defect)
