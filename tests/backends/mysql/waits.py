"""Who waits for whom on a MariaDB server."""

from __future__ import annotations

import time
from typing import Any

from holdfast.challenge.servers.mariadb import MariadbServer

WAITS = """
SELECT b.trx_mysql_thread_id FROM information_schema.INNODB_LOCK_WAITS AS w
JOIN information_schema.INNODB_TRX AS b ON b.trx_id = w.requesting_trx_id
"""


def who_wait(server: MariadbServer) -> list[Any]:
    """Return the sessions that wait for a lock of a row."""
    # What this table tells is kept by the server, and made anew only for who has not asked for a
    # tenth of a second: whoever asks more often is told the same for ever.
    time.sleep(0.15)
    return [number for (number,) in server.run(WAITS)]
