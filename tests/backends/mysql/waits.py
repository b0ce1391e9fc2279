"""Who waits for a lock on a MariaDB or MySQL server."""

from __future__ import annotations

import time
from typing import Any

from lockfast.challenge.servers.mysql_compatible import MysqlCompatibleServer

WAITS = """
SELECT trx_mysql_thread_id FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'
"""


def who_wait(server: MysqlCompatibleServer) -> list[Any]:
    """Return the sessions that wait for a lock of a row."""
    # What this table tells is kept by the server, and made anew only for who has not asked for a
    # tenth of a second: whoever asks more often is told the same for ever.
    time.sleep(0.15)
    return [number for (number,) in server.run(WAITS)]
