# Generated from src/lockfast/backends/etcd/_async/lines.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""How the line of a name is read, and what becomes of holds in it whose claims are gone.

Whoever waits for such a hold removes it when its time is up, by its own clock. But those who try
once and go never wait. So whoever sees it first puts it under a lease that nobody renews, and etcd
itself removes it. That lease is granted after the claim was seen to be gone, hence after all that
the holder can count its trust from; and who revokes leases that its successor has renewed
(etcd-io/etcd#15247) does no harm to one that is never renewed: its time is the same for all.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

from lockfast.backends.etcd import requests, transactions
from lockfast.backends.etcd._sync.asking import Asking
from lockfast.backends.etcd.keys import twin
from lockfast.backends.etcd.standing import EtcdLine, in_line
from lockfast.errors import LockError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.etcd.answers import KeyValue, Ranged
    from lockfast.backends.etcd.keys import NameKeys
    from lockfast.backends.etcd.standing import Standing
    from lockfast.backends.sessions.claims import CarriedClaim

AT_ONCE = 100
"""So many holds are changed in one transaction; a server takes 128 operations."""

_log = logging.getLogger("lockfast")


class Lines(Asking):
    """Reads lines, and sees to it that no hold stays in them for ever."""

    def read_line(
        self,
        keys: NameKeys,
        *,
        capacity: int = 0,
        own: CarriedClaim | None = None,
        clears: bool = True,
        deadline: float,
    ) -> EtcdLine:
        """Return the line as it is now."""
        while True:
            found = self.ask(transactions.everything(keys), deadline=deadline)
            line = self.line_in(
                keys,
                found,
                revision=found.header.revision,
                capacity=capacity,
                own=own,
                clears=clears,
                deadline=deadline,
            )
            if line is not None:
                return line

    def line_in(
        self,
        keys: NameKeys,
        found: Ranged,
        *,
        revision: int,
        capacity: int,
        own: CarriedClaim | None = None,
        clears: bool = True,
        deadline: float,
    ) -> EtcdLine | None:
        """Return what a list of keys says, and where in it ours is.

        None if there were holds without their claims of which something was changed: it has to
        be read again. Who does not clear changes nothing, and leaves out those whose time is up.
        """
        entries = in_line(found.keys, keys)
        overdue = self._orphans.look(entries, now=self._clock.now())
        if not clears:
            entries = [one for one in entries if one not in overdue]
            overdue = []
        for one in overdue:
            if one.hold is not None:
                hold = one.hold
                self.ask(
                    transactions.clear(twin(hold.key), hold.key, held_at=hold.modified),
                    deadline=deadline,
                )
                self._orphans.forget(one)
        if overdue or (clears and self._let_go(entries, deadline)):
            return None
        place = None
        if own is not None and own.key is not None:
            place = own.key.removeprefix(keys.prefix.decode()), own.token
        in_use = entries[0].place.capacity if entries else 0
        return EtcdLine(entries, capacity or in_use, keys=keys, revision=revision, own=place)

    def lease_for(self, seconds: float, *, deadline: float) -> int:
        """Return a lease that nobody renews: what is under it goes by itself, not before that."""
        granted = self.ask(requests.grant(max(1, math.ceil(seconds))), deadline=deadline)
        return granted.lease

    def _let_go(self, entries: Sequence[Standing], deadline: float) -> bool:
        """Let etcd remove holds without their claims in their time; false if nothing was done."""
        left = [
            (one.hold, one.left)
            for one in entries
            if one.hold is not None and one.left is not None and not one.hold.lease
        ]
        if not left:
            return False
        holds: list[KeyValue] = [hold for hold, _ in left]
        try:
            lease = self.lease_for(max(seconds for _, seconds in left), deadline=deadline)
            for at in range(0, len(holds), AT_ONCE):
                request = transactions.let_go(holds[at : at + AT_ONCE], lease=lease)
                self.ask(request, deadline=deadline, is_beside=True)
        except LockError as error:
            # It is for those who come later, and they will try again; who waits now counts itself.
            _log.debug("a hold that was left stays for now: %s", error)
            return False
        return True
