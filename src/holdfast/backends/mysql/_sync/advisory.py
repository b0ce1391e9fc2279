# Generated from src/holdfast/backends/mysql/_async/advisory.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""`mysql://…?mode=advisory`: locks by GET_LOCK, carried by one connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.backends.mysql import advisory_findings, refusals
from holdfast.backends.mysql.addresses import OPTIONS, address_of_url
from holdfast.backends.mysql.advisory import MysqlStatements
from holdfast.backends.mysql.link.threads import Link
from holdfast.backends.mysql.session import SETTINGS
from holdfast.backends.sql._sync.advisory import AdvisoryBackend
from holdfast.backends.sql._sync.advisory_connection import AdvisoryConnection
from holdfast.backends.sql.steps import Ask
from holdfast.core.naming import checked_namespace
from holdfast.errors import BackendUnavailable, ConfigurationError, LockError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.model import Finding
    from holdfast.runtime.clock import Clock

GREETING = (*SETTINGS, Ask("SELECT CONNECTION_ID(), @@GLOBAL.read_only", ()))


class MysqlAdvisoryBackend(AdvisoryBackend):
    """User-level locks of one server, kept apart by database."""

    options = OPTIONS - {"connections", "table"}

    def __init__(
        self,
        *,
        url: str,
        location: str,
        clock: Clock,
        namespace: str = "holdfast",
        **options: object,
    ) -> None:
        self._address = address_of_url(url, where=location, options=options)
        statements = MysqlStatements(
            database=str(self._address.settings["database"]), namespace=checked_namespace(namespace)
        )
        super().__init__(statements, location=location, clock=clock)

    def _connect(self, ttl: float, deadline: float) -> AdvisoryConnection:
        link = Link(clock=self._clock, where=self.location)
        try:
            link.connect(self._address, deadline=deadline)
            [*_, [(number, is_replica)]] = link.exchange(GREETING, deadline=deadline)
            self._refuse_replica(str(is_replica))
            link.exchange([self._statements.last_for(ttl)], deadline=deadline)
            return AdvisoryConnection(link, number=int(number), told=self._sentence)
        except LockError:
            link.close()
            raise
        except TimeoutError as error:
            link.close()
            raise BackendUnavailable(f"{self.location} did not answer in time") from error
        except Exception as error:
            link.close()
            # Whatever the driver makes of it: a stranger at that port may say anything.
            raise refusals.unreachable(error, where=self.location) from error
        except BaseException:
            link.close()
            raise

    def _refuse_replica(self, read_only: str) -> None:
        if read_only not in ("0", "OFF"):
            raise ConfigurationError(
                f"{self.location} takes no writes, so it is a replica, where GET_LOCK keeps "
                "nobody out but its own clients; give the primary's address"
            )

    def _sentence(self, error: Exception) -> LockError:
        return refusals.refused(error, where=self.location)

    def diagnose(self, *, deadline: float) -> Sequence[Finding]:
        """See the protocol."""
        rows = self._by_session(
            lambda session: session.look(advisory_findings.SETTINGS, deadline=deadline), deadline
        )
        return advisory_findings.findings(dict(rows), ttl=self._ttl)
