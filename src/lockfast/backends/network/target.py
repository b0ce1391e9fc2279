"""Whom to connect to, and what of that depends on the store. No I/O.

A host may have several addresses. All our connections try them in turn, beginning with the address
that answered last, and any error of one address means that the next is tried, also an error during
the handshake. An error that an operator has to correct is raised once no address is left.
"""

from __future__ import annotations

import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from lockfast.backends.network.codec import UNREADABLE, ProtocolError
from lockfast.errors import BackendMisbehaved, ConfigurationError, LockError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lockfast.backends.network.tls import TlsOptions
    from lockfast.core.descriptor import Endpoint
    from lockfast.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class Target:
    """A server to connect to; `where` is its name in messages."""

    where: str
    endpoint: Endpoint | None
    path: str = ""
    """The path of a Unix socket, in place of an endpoint."""
    tls: TlsOptions | None = None

    @property
    def literal(self) -> str | None:
        """The one address to connect to, if no name service is needed to find it."""
        if self.endpoint is None:
            return self.path
        for family in (socket.AF_INET, socket.AF_INET6):
            with suppress(OSError, ValueError):
                socket.inet_pton(family, self.endpoint.host)
                return self.endpoint.host
        return None


def ordered(found: Iterable[tuple[Any, ...]], *, first: str) -> list[str]:
    """Return the IP addresses that `getaddrinfo` found, beginning with `first` if it is one."""
    addresses = dict.fromkeys(str(place[0]) for *_, place in found)
    return sorted(addresses, key=lambda one: one != first)


@contextmanager
def name_errors() -> Iterator[None]:
    """Raise the name service's usual error for a host name that cannot even be encoded."""
    try:
        yield
    except UnicodeError as error:
        raise socket.gaierror(socket.EAI_NONAME, str(error)) from error


class AddressAttempts:
    """The addresses of one server, tried in turn: any error of one means that the next is tried."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._left = list(reversed(addresses))
        self._errors: list[LockError] = []

    def __iter__(self) -> Iterator[str]:
        while self._left:
            yield self._left[-1]
            self._left.pop()

    def share(self, seconds: float) -> float:
        """Return the time for this attempt.

        Each address left has an equal share, so that an address that swallows packets does not hide
        the others.
        """
        return seconds / len(self._left)

    def failed(self, error: LockError) -> None:
        """Keep the error of this attempt."""
        self._errors.append(error)

    def pop_error(self) -> LockError:
        """Return an error that waiting does not cure, if there is one; otherwise the last error.

        The errors are no longer kept afterwards, because they refer to the frames that keep this
        object. In such a cycle, a socket that an interrupt left in a frame would stay open until
        the garbage collector runs.
        """
        errors, self._errors = self._errors, []
        permanent = (one for one in errors if isinstance(one, ConfigurationError))
        return next(permanent, errors[-1])


Handshake: TypeAlias = Generator[list[bytes], list[Any], None]
"""Yields requests and is sent their replies, until the connection can be used. It raises a
LockError to refuse the connection, and ProtocolError if the server speaks another protocol."""


class Unreachable(Protocol):
    """Returns the error for a connection that could not be made.

    `error` is an OSError, or a ProtocolError if the server speaks another protocol. If the server
    has answered before, its address is right.
    """

    def __call__(self, error: BaseException, *, has_answered: bool) -> LockError: ...


class Reachability:
    """A server, whether it was ever reached, and the errors for connections that fail."""

    def __init__(self, target: Target, *, unreachable: Unreachable, clock: Clock) -> None:
        self.where: str = target.where
        self._target = target
        self._error_of = unreachable
        self._clock = clock
        self._has_answered = False
        """Whether a connection was ever made, which shows that the address is right."""
        self._answered_at = ""
        """The IP address that answered last."""

    def _answered(self, address: str) -> None:
        self._has_answered, self._answered_at = True, address

    def _failure(self, error: BaseException) -> LockError | None:
        """Return the error for a connection that could not be made; None to raise it as it is."""
        if isinstance(error, OSError | ProtocolError):
            return self._unreachable(error)
        if isinstance(error, UNREADABLE) and not isinstance(error, LockError):
            return BackendMisbehaved(f"{self.where}: its reply to the handshake cannot be read")
        return None

    def _unreachable(self, error: BaseException) -> LockError:
        return self._error_of(error, has_answered=self._has_answered)
