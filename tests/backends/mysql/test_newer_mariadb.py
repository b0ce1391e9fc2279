"""Renewals, losses, names and `all()` on the MariaDB of Debian's sid.

What differs between two releases is what a statement means, for both flavours alike: one of them
is enough.
"""

from __future__ import annotations

from backends.mysql import test_contract as on_mariadb
from servers import mariadb

from lockfast import Backend
from lockfast.backends.mysql._sync.backend import MysqlBackend
from lockfast.runtime.clock import Clock
from lockfast.testing._sync.contract.living import LawsOfLiving
from lockfast.testing._sync.contract.losing import LawsOfLosing


class TestSync(on_mariadb.Namespace, LawsOfLiving, LawsOfLosing):
    capabilities = MysqlBackend.capabilities
    shared_server = staticmethod(mariadb.newer_server)

    def make_backend(self, clock: Clock) -> Backend:
        return MysqlBackend(clock=clock, **self.options)
