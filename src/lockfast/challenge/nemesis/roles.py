"""Who of the clients holds, asks or waits, as their diaries show it while they write them."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockfast.challenge.fault import Role
    from lockfast.challenge.history import Event


@dataclass(slots=True)
class Roles:
    """Fed with what the clients write; the dead have to be taken out."""

    _last: dict[str, Event] = field(default_factory=dict)
    """What each client wrote last."""
    _holds: dict[str, bool] = field(default_factory=dict)
    _let_in: dict[str, float] = field(default_factory=dict)
    """When each client last got what it asked for."""

    def see(self, events: Iterable[Event]) -> None:
        """Take note of what was written since."""
        for event in events:
            self._last[event.client] = event
            if event.phase == "invoked":
                continue
            if event.act == "acquire":
                self._holds[event.client] = event.phase == "ok"
                if event.phase == "ok":
                    self._let_in[event.client] = event.at
            elif event.act == "release" or event.phase == "fail":
                self._holds[event.client] = False

    def who(self, role: Role, among: Iterable[str]) -> str | None:
        """Return who has the role, if anybody has.

        Of several holders and waiters it is the one that has written nothing for longest, of
        several who ask the one that began last: its request is most likely still under way.
        """
        there = [client for client in among if client in self._last]
        asking = sorted(filter(self._asks, there), key=lambda one: self._last[one].at)
        holding = sorted(filter(self._is_holder, there), key=lambda one: self._last[one].at)
        if role == "holder":
            return holding[0] if holding else None
        if role == "asker":
            return asking[-1] if asking else None
        if role == "waiter":
            return asking[0] if asking and holding else None
        return None

    def has_claim(self, client: str) -> bool:
        """Whether it held or asked by its last words: who dies so stands before all others."""
        return self._is_holder(client) or (client in self._last and self._asks(client))

    def were_let_in(self, clients: Iterable[str], *, since: float) -> bool:
        """Whether each of them got what it asked for at that time or later."""
        return all(self._let_in.get(client, -inf) >= since for client in clients)

    def _is_holder(self, client: str) -> bool:
        return self._holds.get(client, False)

    def _asks(self, client: str) -> bool:
        last = self._last[client]
        return last.phase == "invoked" and last.act == "acquire"
