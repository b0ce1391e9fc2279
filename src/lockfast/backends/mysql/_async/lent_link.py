"""A connection of the driver's that the application lends, as a link.

Its session goes back with the settings that it had, and in no transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockfast.backends.mysql.lent_connections import (
    LOOK,
    checked,
    refuse_transaction,
    restoring,
)
from lockfast.backends.mysql.link.aio import DRIVER, Link
from lockfast.backends.sql._async.lent_link import AsyncLentLink
from lockfast.backends.sql.steps import Ask

if TYPE_CHECKING:
    from collections.abc import Sequence


class AsyncMysqlLentLink(AsyncLentLink, Link):  # type: ignore[misc]
    """For one request."""

    _restoring: Sequence[Ask] = ()

    def _accept(self, given: Any) -> bool:  # noqa: ANN401 - a driver's connection
        checked(given, DRIVER, where=self._where)
        if not self._is_sound(given):
            return False
        refuse_transaction(given.server_status, where=self._where)
        self._take_over(given)
        return True

    async def _prepare(self, *, deadline: float) -> None:
        if self.is_lent:
            [rows] = await self.exchange([LOOK], deadline=deadline)
            self._restoring = restoring(rows, where=self._where)

    def _farewell(self) -> Sequence[Ask]:
        return [Ask("ROLLBACK"), *self._restoring]
