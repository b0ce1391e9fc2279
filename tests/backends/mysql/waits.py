"""The sessions that wait for a lock on a MariaDB or MySQL server."""

from __future__ import annotations

import time
from typing import Any

from lockfast_challenge.servers.mysql import MysqlCompatibleServer

WAITS = """
SELECT trx_mysql_thread_id FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'
"""


def who_wait(server: MysqlCompatibleServer) -> list[Any]:
    """Return the sessions that wait for a row lock."""
    # The server caches this table, and refreshes it only if it has not been read for a tenth of a
    # second: a client that reads it more often sees the same rows for ever.
    time.sleep(0.15)
    return [number for (number,) in server.run(WAITS)]
