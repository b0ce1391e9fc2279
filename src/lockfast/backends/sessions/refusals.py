"""What goes wrong with a session, and with what is found beside our claims."""

from __future__ import annotations

from lockfast.errors import BackendUnavailable, ConfigurationError


class SessionEnded(BackendUnavailable):
    """The session is over, and with it all its claims: a new one may be asked at once."""


class Unreadable(ConfigurationError):
    """Another program, or a newer Lockfast, wrote what stands among ours."""


def ended(*, where: str) -> SessionEnded:
    """Return the error of a request that met the session's end."""
    return SessionEnded(f"{where}: the session ended; try again")
