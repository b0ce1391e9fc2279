"""The laws of DESIGN as a test suite that every backend inherits, a section per law."""

from __future__ import annotations

from lockfast.testing._async.contract.failing import AsyncLawsOfFailing
from lockfast.testing._async.contract.handing import AsyncLawsOfHandingOver
from lockfast.testing._async.contract.holding import AsyncLawsOfHolding
from lockfast.testing._async.contract.living import AsyncLawsOfLiving
from lockfast.testing._async.contract.losing import AsyncLawsOfLosing
from lockfast.testing._async.contract.sequencing import AsyncLawsOfSequencing
from lockfast.testing._async.contract.telling import AsyncLawsOfTelling

__all__ = ["AsyncBackendContract"]


class AsyncBackendContract(
    AsyncLawsOfHolding,
    AsyncLawsOfFailing,
    AsyncLawsOfLosing,
    AsyncLawsOfLiving,
    AsyncLawsOfTelling,
    AsyncLawsOfHandingOver,
    AsyncLawsOfSequencing,
):
    """Subclass it, say how your backend is opened, and pytest collects every law.

        class TestMyBackend(AsyncBackendContract):
            capabilities = MyBackend.capabilities

            def set_up(self):
                self.store = MyStore()

            def make_backend(self, clock):
                return MyBackend(self.store, clock=clock)

    Tests are selected by the capabilities that the class declares; none is ever skipped.
    Each test runs on a loop of its own and needs no plug-in.
    """
