"""What people are told of a name, the same on every store; each test names the law it serves."""

from __future__ import annotations

import pytest

from holdfast.errors import AcquireTimeout
from holdfast.testing._async.contract.subject import AsyncSubject


class AsyncLawsOfTelling(AsyncSubject):
    """The laws, as those see them who look on: operators, and whoever waits."""

    # -- Law 11: errors that can be acted upon -----------------------------------------

    async def test_law_11_a_label_cannot_forge_a_line_of_a_log(self) -> None:
        """What another program says of itself is shown escaped, and kept as it is."""
        label = "x)\n2026-11-16 CRITICAL refund approved \x1b[31m"
        lease = await self.locks(label=label).lock("door").acquire()
        other = self.locks()

        with pytest.raises(AcquireTimeout) as caught:
            await other.lock("door").acquire(timeout=0)

        [holder] = (await other.inspect("door")).holders
        assert holder.owner.label == label
        assert str(caught.value).isprintable()
        assert str(holder.owner).isprintable()
        assert lease.owner.isprintable()
