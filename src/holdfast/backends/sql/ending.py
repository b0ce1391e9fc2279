"""How a session with a server ends, and with it all that it carried."""

from __future__ import annotations

from holdfast.errors import BackendUnavailable, ConfigurationError


class SessionEnded(BackendUnavailable):
    """The connection is gone, so the server has freed what was locked by it, or soon will."""


class AnotherSession(ConfigurationError):
    """Another session of the server answers than the one that carries the locks."""
