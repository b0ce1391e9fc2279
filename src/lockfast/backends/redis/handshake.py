"""The first exchange on a connection: protocol, login, name and database. No I/O."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from lockfast.backends.network.codec import ProtocolError
from lockfast.backends.redis import errors
from lockfast.backends.redis.resp import ErrorReply, packed
from lockfast.errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lockfast.backends.network.target import Handshake

Credentials: TypeAlias = tuple[bytes, ...]
"""User and password, or a password alone, or nothing."""


@dataclass(frozen=True, slots=True)
class Login:
    """How to log in. A provider is asked on every connect, because credentials are rotated."""

    username: str = ""
    password: str = field(default="", repr=False)
    provider: Any = field(default=None, repr=False)
    """Any object with redis-py's `get_credentials`, and `get_credentials_async` for asyncio."""

    @property
    def has_provider(self) -> bool:
        """Whether a provider returns the credentials."""
        return self.provider is not None

    @property
    def fixed(self) -> Credentials:
        """The credentials that were given without a provider."""
        given = (self.username, self.password) if self.username else (self.password,)
        # Credentials that were given as bytes need not be UTF-8.
        return tuple(one.encode(errors="surrogateescape") for one in given) if any(given) else ()


@contextmanager
def provider_errors(*, where: str) -> Iterator[None]:
    """Report the failure of a credential provider as that.

    Otherwise a token service that is briefly down would look like a bug of ours, or like a server
    that does not speak the protocol.
    """
    try:
        yield
    except Exception as error:
        # Show only the type of the error, because its message may contain secrets.
        raise BackendUnavailable(
            f"{where}: the credential_provider failed ({type(error).__name__})"
        ) from error


def checked_credentials(given: Any) -> Credentials:  # noqa: ANN401 - the provider's
    """Return what a provider returned, encoded; raise if it is not a login."""
    if not isinstance(given, tuple | list) or not 1 <= len(given) <= 2:  # noqa: PLR2004
        raise TypeError("a credential provider returns a user and a password")
    return tuple(one.encode() if isinstance(one, str) else bytes(one) for one in given)


def handshake(
    credentials: Credentials,
    *,
    where: str,
    db: int,
    client_name: str,
    check: Callable[[dict[Any, Any]], None],
    has_provider: bool,
) -> Handshake:
    """Log in, name the connection and select the database; `check` is called with the greeting.

    `has_provider` says that a provider returned the credentials.
    """
    hello = [b"HELLO", b"3"]
    if credentials:
        user, password = credentials if len(credentials) > 1 else (b"default", *credentials)
        hello += [b"AUTH", user, password]
    if client_name:
        hello += [b"SETNAME", client_name.encode()]
    [greeting] = yield [packed(*hello)]
    _check_accepted(greeting, where=where, has_provider=has_provider)
    if not isinstance(greeting, dict):
        raise ProtocolError(repr(greeting)[:40])
    check(greeting)
    if db:
        [selected] = yield [packed(b"SELECT", b"%d" % db)]
        _check_accepted(selected, where=where, has_provider=has_provider)


def _check_accepted(reply: object, *, where: str, has_provider: bool) -> None:
    if isinstance(reply, ErrorReply):
        raise errors.refused(reply, where=where, has_provider=has_provider)


def sentinel_handshake(credentials: Credentials, *, where: str, has_provider: bool) -> Handshake:
    """Log in to a Sentinel, without HELLO, which Sentinels older than 6.2 do not know."""
    if credentials:
        [reply] = yield [packed(b"AUTH", *credentials)]
        if isinstance(reply, ErrorReply):
            raise errors.of_sentinel(reply, where=where, has_provider=has_provider)
