"""Renewals, losses, names and `all()` on the MariaDB of Debian sid.

Releases may differ in what a statement means. Such a difference affects both flavours alike, so
testing one flavour is enough.
"""

from __future__ import annotations

from backends.mysql import test_contract as on_mariadb
from servers import mariadb

from lockfast import Backend
from lockfast.backends.mysql._sync.backend import MysqlBackend
from lockfast.runtime.clock import Clock
from lockfast.testing._sync.contract.lifecycle import LawsOfLifecycle
from lockfast.testing._sync.contract.loss import LawsOfLoss


class TestSync(on_mariadb.Namespace, LawsOfLifecycle, LawsOfLoss):
    capabilities = MysqlBackend.capabilities
    shared_server = staticmethod(mariadb.newer_server)

    def make_backend(self, clock: Clock) -> Backend:
        return MysqlBackend(clock=clock, **self.options)
