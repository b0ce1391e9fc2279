"""kazoo as our transport: one client per session, on one thread, and its last error.

We hand requests to kazoo (`requests.send`) and receive the replies on kazoo's own thread. We do not
use kazoo's futures, which a second thread would complete, so kazoo's handler needs no workers.
"""

from __future__ import annotations

import logging
import socket
import ssl
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionDropped, KazooException, SASLException
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import STOP_CONNECTING
from kazoo.protocol.serialization import CloseInstance, Connect
from kazoo.protocol.states import KeeperState
from kazoo.retry import ForceRetryError

from lockfast.backends.zookeeper.errors import UnusableCertificate
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

    def info(self, message: str, *args: object) -> None:
        """Pass the message on."""
        self.log(logging.INFO, message, *args)

    def warning(self, message: str, *args: object) -> None:
        """Pass the message on."""
        self.log(logging.WARNING, message, *args)

    warn = warning

    def exception(self, message: str, *args: object) -> None:
        """Pass the message on with its traceback."""
        self.log(logging.ERROR, message, *args, exc_info=True)


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """A kazoo handler that runs everything on one thread, the thread of kazoo's connection."""

    def __init__(self, trouble: DriverTrouble) -> None:
        super().__init__()
        self._trouble = trouble
        self.patience = CONNECT_SECONDS
        """Time limit for one member to accept a connection; the handshake has the same limit."""

    def start(self) -> None:
        """Start no workers; we use no kazoo futures, and our watchers need no own thread."""

    def stop(self) -> None:
        """Do nothing; see `start`."""

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
    """When the last connect request was sent and answered, and the timeout that was granted.

    kazoo does not keep these facts. `opened_at` is when the request that opened the session was
    sent, and a majority has agreed on that request. Later handshakes may be answered by any member,
    even if its leader is deposed.
    """

    def __init__(self, client: Any, clock: Clock) -> None:  # noqa: ANN401
        self.opened_at: float = NEVER_YET
        self.sent_at: float = NEVER_YET
        self.heard_at: float = NEVER_YET
        self.granted: float = 0.0
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
            if client._state != KeeperState.CONNECTING:  # noqa: SLF001
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
    connection = client._connection._socket  # noqa: SLF001
    if connection is not None:
        with suppress(OSError):  # the socket is already closed
            connection.shutdown(2)
    _wake(client)


def _wake(client: Any) -> None:  # noqa: ANN401
    bell = client._connection._write_sock  # noqa: SLF001
    if bell is not None:
        with suppress(OSError):  # the socket was closed meanwhile
            bell.send(b"\0")


def finish(client: Any) -> None:  # noqa: ANN401
    """Wait for the client's thread, which is ending, and free its resources."""
    routine = client._connection._connection_routine  # noqa: SLF001
    if routine is not None:
        routine.join()
        client._connection._connection_routine = None  # noqa: SLF001
    client.close()


def wait_for_end(client: Any, seconds: float) -> bool:  # noqa: ANN401
    """Wait at most `seconds`; return whether the client's thread has finished its work."""
    stopped = client._connection.connection_stopped  # noqa: SLF001
    until = time.monotonic() + seconds
    while not stopped.is_set():
        if time.monotonic() >= until:
            return False
        # Do not use the event's own `wait`, because an interrupt inside `wait` turns into another
        # error and is lost.
        time.sleep(DRIVER_POLL_SECONDS)
    return True
