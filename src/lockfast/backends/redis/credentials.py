"""A provider of passwords is somebody else's code: whatever it raises is told as what it is.

The driver calls it while it connects. Without this, a token service that is down for a moment
would look like a defect of ours, or like a server that does not speak the protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redis.credentials import CredentialProvider

from lockfast.errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping


class _GuardedProvider(CredentialProvider):
    """Gives what the provider gives, or raises BackendUnavailable."""

    def __init__(self, provider: Any, *, where: str) -> None:  # noqa: ANN401 - the driver's
        self._provider = provider
        self._where = where

    def get_credentials(self) -> Any:  # noqa: ANN401 - the driver's
        """Return user and password."""
        try:
            return self._provider.get_credentials()
        except Exception as error:
            raise self._failed(error) from error

    async def get_credentials_async(self) -> Any:  # noqa: ANN401 - the driver's
        """Return user and password."""
        try:
            return await self._provider.get_credentials_async()
        except Exception as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> BackendUnavailable:
        # Only its kind: its words may hold what nobody should read.
        kind = type(error).__name__
        return BackendUnavailable(f"{self._where}: the credential_provider failed ({kind})")


def guarded(options: Mapping[str, Any], *, where: str) -> dict[str, Any]:
    """Return the driver's options with a guard around the provider, if there is one."""
    found = dict(options)
    if found.get("credential_provider") is not None:
        found["credential_provider"] = _GuardedProvider(found["credential_provider"], where=where)
    return found
