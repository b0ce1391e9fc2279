"""How a waiting claim is notified of its turn; shared by the stores."""

from __future__ import annotations

from lockfast.errors import BackendUnavailable


class NotificationsUnavailable(BackendUnavailable):
    """Notifications from the server do not reach us, so waiting claims have to poll."""

    is_for_good = False
