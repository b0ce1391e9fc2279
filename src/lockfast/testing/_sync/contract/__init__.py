# Generated from src/lockfast/testing/_async/contract/__init__.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The laws of Lockfast, as a test suite with a section per law, for every backend."""

from __future__ import annotations

from lockfast.testing._sync.contract.exclusion import LawsOfExclusion
from lockfast.testing._sync.contract.failures import LawsOfFailure
from lockfast.testing._sync.contract.handover import LawsOfHandingOver, LawsOfSequencing
from lockfast.testing._sync.contract.inspection import LawsOfInspection
from lockfast.testing._sync.contract.lifecycle import LawsOfLifecycle
from lockfast.testing._sync.contract.loss import LawsOfLoss

__all__ = ["BackendContract"]


class BackendContract(
    LawsOfExclusion,
    LawsOfFailure,
    LawsOfLoss,
    LawsOfLifecycle,
    LawsOfInspection,
    LawsOfHandingOver,
    LawsOfSequencing,
):
    """Subclass this contract, define how your backend is opened, and pytest collects its tests.

        class TestMyBackend(BackendContract):
            capabilities = MyBackend.capabilities

            def set_up(self):
                self.store = MyStore()

            def make_backend(self, clock):
                return MyBackend(self.store, clock=clock)

    The capabilities that the class declares select the tests, and no test is ever skipped. Each
    test runs on its own loop and needs no plug-in.
    """
