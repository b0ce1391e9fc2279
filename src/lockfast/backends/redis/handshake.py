"""Wraps credential providers, so that a provider's failure is reported as that.

The driver calls the provider while it connects. Without the wrapper, a token service that is
briefly down would look like a bug of ours, or like a server that does not speak the protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redis.credentials import CredentialProvider

from lockfast.errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping


class _GuardedProvider(CredentialProvider):
    """Returns the provider's credentials, or raises BackendUnavailable."""

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
        # Show only the type of the error, because its message may contain secrets.
        kind = type(error).__name__
        return BackendUnavailable(f"{self._where}: the credential_provider failed ({kind})")


def guarded_credentials(options: Mapping[str, Any], *, where: str) -> dict[str, Any]:
    """Return the driver's options, with the credential provider wrapped if there is one."""
    found = dict(options)
    if found.get("credential_provider") is not None:
        found["credential_provider"] = _GuardedProvider(found["credential_provider"], where=where)
    return found
