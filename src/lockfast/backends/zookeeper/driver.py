"""kazoo as our transport: one client per session, on one thread, and its last error.

We hand requests to kazoo (`requests.send`) and receive the replies on kazoo's own thread. We do not
use kazoo's futures, which a second thread would complete, so kazoo's handler needs no workers.
"""

from __future__ import annotations

import inspect
import logging
import socket
import ssl
import threading
from collections import deque
from contextlib import suppress
from functools import partialmethod
from typing import TYPE_CHECKING, Any

import kazoo
from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionDropped, KazooException, SASLException
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import STOP_CONNECTING, ConnectionHandler
from kazoo.protocol.serialization import CloseInstance, Connect
from kazoo.protocol.states import KeeperState
from kazoo.retry import ForceRetryError

from lockfast.backends.zookeeper.descriptor import SUPPORTED_KAZOO
from lockfast.backends.zookeeper.errors import UnusableCertificate
from lockfast.errors import ConfigurationError
from lockfast.platforms import here

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lockfast.runtime.clock import Clock

RETRY_POLICY: dict[str, float] = {
    "max_tries": -1,
    "delay": 0.02,
    "backoff": 2,
    "max_jitter": 0.4,
    "max_delay": 0.5,
}
"""How kazoo tries the members after a lost connection. The retries begin soon, because the
session's timeout is running, and continue until we stop them."""

DRIVER_POLL_SECONDS = 0.002
"""Interval at which a closing client checks whether kazoo's thread has ended, in seconds."""

NEVER_YET = float("-inf")

CONNECT_SECONDS = 2.0
"""Time limit, in seconds, for a member to accept a connection; the handshake has the same limit.
After that the next member is tried."""

_log = logging.getLogger("kazoo.lockfast")
# If an application has not set up logging, our errors are enough, because kazoo's messages would
# repeat them.
_log.addHandler(logging.NullHandler())


INTERNALS: tuple[tuple[type, str, type | tuple[str, ...]], ...] = (
    (KazooClient, "_connection", ConnectionHandler),
    (KazooClient, "_queue", deque),
    (KazooClient, "_stopped", threading.Event),
    (KazooClient, "_session_callback", ("state",)),
    (ConnectionHandler, "_connect", ("host", "hostip", "port")),
    (ConnectionHandler, "_connect_loop", ("retry",)),
    (ConnectionHandler, "_invoke", ("timeout", "request", "xid")),
    (ConnectionHandler, "connection_stopped", threading.Event),
    (ConnectionHandler, "sasl_options", object),
)
"""The internals of kazoo that we use where it has no public way: the class, the name, and the type
or the parameters. The last two have public names, but only `_connection` leads to them."""


def unknown_internals() -> list[str]:
    """Return which of `INTERNALS` the installed kazoo lacks, or has in another form."""
    client = KazooClient()  # opens nothing and starts no thread
    unknown = []
    for owner, name, form in INTERNALS:
        holder = client if owner is KazooClient else getattr(client, "_connection", None)
        if not hasattr(holder, name) or not _has_form(getattr(holder, name), form):
            parameters = f"({', '.join(form)})" if isinstance(form, tuple) else ""
            unknown.append(f"{owner.__name__}.{name}{parameters}")
    return unknown


def _has_form(found: Any, form: type | tuple[str, ...]) -> bool:  # noqa: ANN401 - kazoo has no types
    if isinstance(form, tuple):
        return callable(found) and tuple(inspect.signature(found).parameters) == form
    return isinstance(found, form)


if _unknown := unknown_internals():
    # Refuse at import, because later a missing name would be an AttributeError on kazoo's thread,
    # which reconnects after any error, and we would report an outage.
    raise ConfigurationError(
        f"zookeeper:// relies on internals of kazoo that the installed kazoo {kazoo.__version__} "
        f"lacks or has changed ({', '.join(_unknown)}); {SUPPORTED_KAZOO}"
    )


class DriverTrouble:
    """kazoo's log and the last error in it, because kazoo keeps no reason for an outage."""

    def __init__(self) -> None:
        self.last: BaseException | None = None

    def log(self, level: int, message: str, *args: object, **keywords: Any) -> None:  # noqa: ANN401
        """Pass the message on, and keep the error in it, if there is one.

        Debug messages are dropped, because they include every request, even with passwords.
        """
        if level <= logging.DEBUG:
            return
        for one in args:
            # Keep an OSError that our handler caught, because it says more than kazoo's message
            # about it.
            if isinstance(one, BaseException) and not isinstance(self.last, OSError):
                self.last = one
        _log.log(level, message, *args, **keywords)

    def debug(self, message: str, *args: object) -> None:
        """Drop the message, because kazoo logs each request."""

    info: partialmethod[None] = partialmethod(log, logging.INFO)
    warn: partialmethod[None] = partialmethod(log, logging.WARNING)
    warning: partialmethod[None] = warn
    exception: partialmethod[None] = partialmethod(log, logging.ERROR, exc_info=True)


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """A kazoo handler that runs everything on one thread, the thread of kazoo's connection.

    kazoo makes its thread and its sockets here, so we need not look for them in its internals.
    """

    def __init__(self, trouble: DriverTrouble) -> None:
        super().__init__()
        self._trouble = trouble
        self.thread: threading.Thread | None = None
        """The thread of kazoo's connection."""
        self.doorbell: socket.socket | None = None
        """Wakes kazoo's thread, one byte for each request."""
        self.connection: socket.socket | None = None
        """The last connection to a member; kazoo closes it."""
        self.patience = CONNECT_SECONDS
        """Time limit for one member to accept a connection; the handshake has the same limit."""

    def start(self) -> None:
        """Start no workers; we use no kazoo futures, and our watchers need no own thread."""

    def stop(self) -> None:
        """Do nothing; see `start`."""

    def spawn(self, func: Callable[..., None], *args: Any, **kwargs: Any) -> threading.Thread:  # noqa: ANN401
        """Start the thread of kazoo's connection, the only one that is started here."""
        # Keep the thread before it starts, because an interrupt may strike right after that.
        self.thread = threading.Thread(target=func, args=args, kwargs=kwargs, daemon=True)
        self.thread.start()
        return self.thread

    def create_socket_pair(self) -> tuple[socket.socket, socket.socket]:
        """Return the socket that kazoo's thread reads, and the one that wakes it."""
        pair: tuple[socket.socket, socket.socket] = super().create_socket_pair()
        self.doorbell = pair[1]
        return pair

    def dispatch_callback(self, callback: Any) -> None:  # noqa: ANN401
        """Call a watcher at once."""
        callback.func(*callback.args)

    def create_connection(
        self,
        address: tuple[str, int],
        *,
        hostname: str,
        timeout: float,
        use_ssl: bool = False,
        **tls: Any,  # noqa: ANN401
    ) -> socket.socket:
        """Connect to one member, with a limit, because a silent member must not use up the session.

        kazoo's own version leaves a socket open if TLS fails.
        """
        try:
            connection = socket.create_connection(address, min(self.patience, timeout))
            try:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if use_ssl:
                    connection = tls_context(tls).wrap_socket(connection, server_hostname=hostname)
            except BaseException:
                # Close the socket on any exception, because nothing else references it yet.
                connection.close()
                raise
        except OSError as error:
            self._trouble.last = error
            raise
        self.connection = connection
        return connection

    def select(
        self,
        reading: Sequence[socket.socket],
        writing: Sequence[socket.socket],
        _: object,
        timeout: float | None = None,
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Return which sockets are ready; kazoo's own version creates an epoll object per call."""
        poll = here.Poll()
        for one in reading:
            poll.register(one, here.READ)
            if hasattr(one, "pending") and one.pending():
                # The next reply is already in TLS's buffer, because one TLS record can contain two
                # replies.
                return [one], [], []
        for one in writing:
            poll.register(one, here.WRITE)
        ready = {fd for fd, _ in poll.poll(None if timeout is None else timeout * 1000)}
        return (
            [one for one in reading if one.fileno() in ready],
            [one for one in writing if one.fileno() in ready],
            [],
        )


def tls_context(options: Mapping[str, Any]) -> ssl.SSLContext:
    """Return the TLS context for options as KazooClient takes them."""
    context = ssl.create_default_context()
    is_verified = options.get("verify_certs", True)
    context.check_hostname = bool(options.get("check_hostname") and is_verified)
    if not is_verified:
        context.verify_mode = ssl.CERT_NONE
    if options.get("ca"):
        context.load_verify_locations(options["ca"])
    if options.get("certfile"):
        password = options.get("keyfile_password")
        try:
            context.load_cert_chain(options["certfile"], options.get("keyfile"), password)
        except ssl.SSLError as error:
            raise UnusableCertificate(str(error)) from error
    return context


class DriverHandshake:
    """When the last connect request was sent and answered, the session, and its granted timeout.

    kazoo does not keep the times and the timeout. `opened_at` is when the request that opened the
    session was sent, and a majority has agreed on that request. Later handshakes may be answered by
    any member, even if its leader is deposed.
    """

    def __init__(self, client: Any, clock: Clock) -> None:  # noqa: ANN401
        self.opened_at: float = NEVER_YET
        self.sent_at: float = NEVER_YET
        self.heard_at: float = NEVER_YET
        self.granted: float = 0.0
        self.session_id: int = 0
        """Our session's id, as ZooKeeper records it in the session's nodes."""
        self._clock = clock
        self._handler = client.handler
        self._invoke = client._connection._invoke  # noqa: SLF001
        client._connection._invoke = self  # noqa: SLF001

    def __call__(self, timeout: float, request: Any, xid: int | None = None) -> Any:  # noqa: ANN401
        """Exchange a request and a reply for kazoo while it connects, and record the times."""
        sent_at = self._clock.now()
        answer = self._invoke(min(timeout, self._handler.patience), request, xid)
        if isinstance(request, Connect) and answer[0].time_out > 0:
            self.granted, self.sent_at = answer[0].time_out / 1000, sent_at
            self.heard_at = self._clock.now()
            self.session_id = answer[0].session_id
            if not request.session_id:
                self.opened_at = sent_at
        return answer


def new_client(options: Mapping[str, Any], *, ttl: float) -> tuple[Any, DriverTrouble]:
    """Return a kazoo client that has not been started, for one session."""
    trouble = DriverTrouble()
    client = KazooClient(
        **options,
        timeout=ttl,
        handler=_Handler(trouble),
        logger=trouble,
        connection_retry=RETRY_POLICY,
    )
    _keep_thread_alive(client, trouble)
    return client, trouble


def _keep_thread_alive(client: Any, trouble: DriverTrouble) -> None:  # noqa: ANN401
    """Keep kazoo's thread running after any exception, because nothing else would reconnect.

    kazoo handles its own exceptions for an outage. Any other error comes from the layers below
    kazoo, or from application code that kazoo calls for credentials, and may be temporary.
    """
    connection = client._connection  # noqa: SLF001
    connect_loop = connection._connect_loop  # noqa: SLF001

    def keep_connecting(retry: Any) -> Any:  # noqa: ANN401
        try:
            return connect_loop(retry)
        except ForceRetryError:
            raise
        except (Exception, SystemExit) as error:
            trouble.last = error
            if isinstance(error, SASLException):
                # Stop, because the cause, for example a missing package, is permanent.
                client._session_callback(KeeperState.AUTH_FAILED)  # noqa: SLF001
                return STOP_CONNECTING
            if client.client_state != KeeperState.CONNECTING:
                client._session_callback(KeeperState.CONNECTING)  # noqa: SLF001
            raise ForceRetryError(str(error)) from error

    connection._connect_loop = keep_connecting  # noqa: SLF001


def call_when_usable(client: Any, trouble: DriverTrouble, entered: Callable[[], None]) -> None:  # noqa: ANN401
    """Call `entered` once a connection can be used: after the handshake and all credentials.

    kazoo reports the connection right after the handshake, and may then fail to send the
    credentials.
    """
    connect = client._connection._connect  # noqa: SLF001

    def enter(*place: Any) -> Any:  # noqa: ANN401
        try:
            timeouts = connect(*place)
        except AuthFailedError as error:
            if error.__cause__ is None or isinstance(error.__cause__, KazooException):
                raise
            # The server did not refuse the login. The application's own code for credentials
            # failed, and may succeed the next time.
            trouble.last = error.__cause__
            raise ConnectionDropped(str(error.__cause__)) from error
        entered()
        return timeouts

    client._connection._connect = enter  # noqa: SLF001


def start(client: Any, *, seconds: float) -> None:  # noqa: ANN401
    """Begin to connect; each member gets a part of the time, so that all can be tried."""
    client.handler.patience = max(0.1, min(CONNECT_SECONDS, seconds / (len(client.hosts) + 1)))
    client.start_async()


def stop_reconnecting(client: Any) -> None:  # noqa: ANN401
    """Keep the client from opening another session; its thread then ends.

    Otherwise kazoo would open a new session and continue as if nothing had been lost.
    """
    client._stopped.set()  # noqa: SLF001


def say_goodbye(client: Any) -> None:  # noqa: ANN401
    """Ask the server to end the session now, with all its nodes; does not wait."""
    stop_reconnecting(client)
    client._queue.append((CloseInstance, None))  # noqa: SLF001
    _wake(client)


def hang_up(client: Any) -> None:  # noqa: ANN401
    """Cut the connection without a goodbye, so that the session stays until it times out.

    Unless the client was stopped, it reconnects and keeps the session.
    """
    connection = client.handler.connection
    if connection is not None:
        with suppress(OSError):  # the socket is already closed
            connection.shutdown(2)
    _wake(client)


def _wake(client: Any) -> None:  # noqa: ANN401
    doorbell = client.handler.doorbell
    if doorbell is not None:
        with suppress(OSError):  # the socket was closed meanwhile
            doorbell.send(b"\0")


def finish(client: Any) -> None:  # noqa: ANN401
    """Wait for the client's thread, which is ending, and free its resources."""
    thread = client.handler.thread
    if thread is not None and thread.is_alive():
        thread.join()
    client.close()


def has_ended(client: Any) -> bool:  # noqa: ANN401
    """Return whether the client's thread has finished its work."""
    return bool(client._connection.connection_stopped.is_set())  # noqa: SLF001
