"""Wakeups through LISTEN and NOTIFY."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.sql.steps import QueryMany
from lockfast.backends.sql.verbs import WATCH_PREFIX, Notifier
from lockfast.backends.waiting import NotificationsUnavailable
from lockfast.core.door import ADMITTED
from lockfast.core.naming import storage_key
from lockfast.errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.postgresql.schema import PostgresqlTables
    from lockfast.backends.sql.steps import Queries
    from lockfast.core.door import Entry

# Wakes waiters with NOTIFY, in the transaction that admits them or turns them away.
#
# A notification is delivered when, and only if, the transaction commits. While a transaction that
# notifies commits, no other such transaction on the whole server can commit. So we notify only
# clients that listen, and never our own, whose claims are woken locally.
#
# An admitted claim may be dead, and then nobody would wake the line. So the next waiter of another
# client is notified too, to probe its line when the admission window of the admitted claim has
# ended.

NOTIFIED_BEHIND = 16
"""Number of entries behind an admitted entry that are searched for the next waiter of another
client."""

_NOTIFY = "SELECT pg_notify($1, $2)"
_NOTIFY_NEXT = f"""
SELECT pg_notify(other.bell, '{WATCH_PREFIX}' || other.id) FROM (
    SELECT bell, id FROM (
        SELECT arrived, bell, id, client FROM {{place}}
        WHERE key = $1 AND arrived > $2 AND standing = 3 ORDER BY arrived LIMIT {NOTIFIED_BEHIND}
    ) AS near WHERE client <> $3 ORDER BY arrived LIMIT 1
) AS other WHERE other.bell <> ''
"""


class PostgresqlNotifier(Notifier):
    """Notifies waiters in the lines of one namespace, from within a transaction."""

    def __init__(self, tables: PostgresqlTables, *, namespace: str) -> None:
        self._namespace = namespace
        self._notify_next = _NOTIFY_NEXT.format(place=tables.place)

    def others(self, woken: Sequence[Entry], *, channel: str) -> Queries:
        asked = []
        bells = [(one.bell, one.claim.id) for one in woken if one.bell not in ("", channel)]
        if bells:
            asked.append(QueryMany(_NOTIFY, bells))
        if watched := self._watched(woken):
            asked.append(QueryMany(self._notify_next, watched))
        return asked

    def _watched(self, woken: Sequence[Entry]) -> list[tuple[object, ...]]:
        """Return the values for `_NOTIFY_NEXT`, from the last claim admitted at each name.

        The next waiter behind that claim has to probe its line later.
        """
        last = {one.claim.name: one for one in woken if one.state is ADMITTED}
        return [
            (storage_key(self._namespace, name), one.arrived, one.claim.client)
            for name, one in last.items()
        ]


# Tests whether notifications come through. Another connection sends a proof while the listening
# connection is idle.
#
# A notification that a connection sends to itself comes back even through a pooler. Such a
# notification proves nothing, because the pooler hands the server's connection to other clients
# between transactions.

PROOF_TIMEOUT_SECONDS = 2.0
"""Timeout for the proof, in seconds; a notification that takes longer will not come."""


def listen_statement(channel: str) -> str:
    """Return the LISTEN statement for a channel, with the channel's name quoted."""
    return f"LISTEN {_quoted(channel)}"


def unlisten_statement(channel: str) -> str:
    """Return the UNLISTEN statement for a channel, with the channel's name quoted."""
    return f"UNLISTEN {_quoted(channel)}"


def _quoted(channel: str) -> str:
    escaped = channel.replace('"', '""')
    return f'"{escaped}"'


def unproven(*, where: str) -> NotificationsUnavailable:
    """Return the error for a proof that did not arrive."""
    return NotificationsUnavailable(
        f"{where}: notifications do not come through, most likely because of a pooler in "
        "transaction mode; waiting claims ask by themselves. For quick hand-overs give the "
        "server's own address, or a pooler in session mode"
    )


def no_longer_wanted(*, where: str) -> BackendUnavailable:
    """Return the error for a subscription that was given up before it was complete."""
    return BackendUnavailable(f"{where}: nobody wants to hear anything any more")
