# Generated from src/lockfast/testing/_async/contract/__init__.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The laws of DESIGN as a test suite that every backend inherits, a section per law."""

from __future__ import annotations

from lockfast.testing._sync.contract.failing import LawsOfFailing
from lockfast.testing._sync.contract.handing import LawsOfHandingOver
from lockfast.testing._sync.contract.holding import LawsOfHolding
from lockfast.testing._sync.contract.living import LawsOfLiving
from lockfast.testing._sync.contract.losing import LawsOfLosing
from lockfast.testing._sync.contract.sequencing import LawsOfSequencing
from lockfast.testing._sync.contract.telling import LawsOfTelling

__all__ = ["BackendContract"]


class BackendContract(
    LawsOfHolding,
    LawsOfFailing,
    LawsOfLosing,
    LawsOfLiving,
    LawsOfTelling,
    LawsOfHandingOver,
    LawsOfSequencing,
):
    """Subclass it, say how your backend is opened, and pytest collects every law.

        class TestMyBackend(BackendContract):
            capabilities = MyBackend.capabilities

            def set_up(self):
                self.store = MyStore()

            def make_backend(self, clock):
                return MyBackend(self.store, clock=clock)

    Tests are selected by the capabilities that the class declares; none is ever skipped.
    Each test runs on a loop of its own and needs no plug-in.
    """
