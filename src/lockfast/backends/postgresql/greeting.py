"""What a server says of itself when a connection to it is made."""

from __future__ import annotations

from dataclasses import dataclass

GREETING = """
SELECT pg_backend_pid(), pg_is_in_recovery(), current_setting('server_version_num')::int,
    current_setting('default_transaction_isolation'), current_setting('synchronous_commit')
"""


@dataclass(frozen=True, slots=True)
class Greeting:
    """The answer to it; `announced_pid` is what the connection was told when it was made.

    A pooler announces a number of its own. In which mode it is cannot be seen by this.
    """

    announced_pid: int
    pid: int
    is_standby: bool
    version: int
    isolation: str
    synchronous_commit: str

    @property
    def is_pooled(self) -> bool:
        """Whether somebody stands between us and the server."""
        return self.pid != self.announced_pid
