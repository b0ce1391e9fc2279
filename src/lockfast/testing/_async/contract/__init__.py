"""The laws of Lockfast, as a test suite with a section per law, for every backend."""

from __future__ import annotations

from lockfast.testing._async.contract.exclusion import AsyncLawsOfExclusion
from lockfast.testing._async.contract.failures import AsyncLawsOfFailure
from lockfast.testing._async.contract.handover import AsyncLawsOfHandingOver, AsyncLawsOfSequencing
from lockfast.testing._async.contract.inspection import AsyncLawsOfInspection
from lockfast.testing._async.contract.lifecycle import AsyncLawsOfLifecycle
from lockfast.testing._async.contract.loss import AsyncLawsOfLoss

__all__ = ["AsyncBackendContract"]


class AsyncBackendContract(
    AsyncLawsOfExclusion,
    AsyncLawsOfFailure,
    AsyncLawsOfLoss,
    AsyncLawsOfLifecycle,
    AsyncLawsOfInspection,
    AsyncLawsOfHandingOver,
    AsyncLawsOfSequencing,
):
    """Subclass this contract, define how your backend is opened, and pytest collects its tests.

        class TestMyBackend(AsyncBackendContract):
            capabilities = MyBackend.capabilities

            def set_up(self):
                self.store = MyStore()

            def make_backend(self, clock):
                return MyBackend(self.store, clock=clock)

    The capabilities that the class declares select the tests, and no test is ever skipped. Each
    test runs on its own loop and needs no plug-in.
    """
