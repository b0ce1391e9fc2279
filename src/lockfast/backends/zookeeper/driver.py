"""kazoo as our transport: one client per session, on one thread, and what it stumbled over.

We hand it requests (`sending`) and hear the answers on its own thread, without the hand-over to
a second one by which its futures are told. So its handler needs no workers.
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

from lockfast.backends.zookeeper.refusals import UnusableCertificate
from lockfast.platforms import here

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lockfast.runtime.clock import Clock

AGAIN: dict[str, float] = {
    "max_tries": -1,
    "delay": 0.02,
    "backoff": 2,
    "max_jitter": 0.4,
    "max_delay": 0.5,
}
"""How kazoo goes round the members once the connection is lost: soon, since a session's time
runs meanwhile, and for as long as we let it."""

LOOK = 0.002
"""How often one who leaves looks whether kazoo's thread has ended, which takes a moment."""

NEVER_YET = float("-inf")

CONNECT = 2.0
"""A member that does not accept, or not greet, in this time is passed over."""

_log = logging.getLogger("kazoo.lockfast")
# Somebody who has not set up logging is told by our errors, and not by kazoo's complaints too.
_log.addHandler(logging.NullHandler())


class Trouble:
    """kazoo's log, and the last error in it: kazoo itself keeps no reason for an outage."""

    def __init__(self) -> None:
        self.last: BaseException | None = None

    def log(self, level: int, message: str, *args: object, **keywords: Any) -> None:  # noqa: ANN401
        """Pass it on, and keep the error in it, if there is one.

        What kazoo says for debugging is dropped: it shows every request, and in them passwords.
        """
        if level <= logging.DEBUG:
            return
        for one in args:
            # What our handler caught says more than kazoo's words about it.
            if isinstance(one, BaseException) and not isinstance(self.last, OSError):
                self.last = one
        _log.log(level, message, *args, **keywords)

    def debug(self, message: str, *args: object) -> None:
        """Drop it: kazoo tells of each request."""

    def info(self, message: str, *args: object) -> None:
        """Pass it on."""
        self.log(logging.INFO, message, *args)

    def warning(self, message: str, *args: object) -> None:
        """Pass it on."""
        self.log(logging.WARNING, message, *args)

    warn = warning

    def exception(self, message: str, *args: object) -> None:
        """Pass it on with its traceback."""
        self.log(logging.ERROR, message, *args, exc_info=True)


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Runs kazoo's connection on its thread, and everything else right there."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__()
        self._trouble = trouble
        self.patience = CONNECT
        """How long one member may take to accept, and again to greet."""

    def start(self) -> None:
        """Start no workers: nobody uses kazoo's futures, and watchers only ring a bell."""

    def stop(self) -> None:
        """See `start`."""

    def dispatch_callback(self, callback: Any) -> None:  # noqa: ANN401
        """Tell a watcher at once."""
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
        """Connect to one member; a deaf one may not use up the session's whole time.

        kazoo's own leaves a socket open where TLS fails.
        """
        try:
            connection = socket.create_connection(address, min(self.patience, timeout))
            try:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if use_ssl:
                    connection = tls_context(tls).wrap_socket(connection, server_hostname=hostname)
            except BaseException:
                # Whatever stops us, nobody else knows of this socket yet.
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
        """Return which are ready; kazoo's own makes an epoll object for each call."""
        poll = here.Poll()
        for one in reading:
            poll.register(one, here.READ)
            if hasattr(one, "pending") and one.pending():
                # TLS has read it from the socket already: two answers in one record.
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
    """Return how TLS is spoken, by options as KazooClient takes them."""
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


class Greeting:
    """When the last connect request was sent and answered, and the timeout that it was granted.

    kazoo keeps none of it. `opened_at` is when the request was sent that opened the session:
    that one a majority has agreed on. What comes later any member may answer, though its
    leader be deposed.
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
        """Stand between kazoo and its exchange of a request and an answer while connecting."""
        sent_at = self._clock.now()
        answer = self._invoke(min(timeout, self._handler.patience), request, xid)
        if isinstance(request, Connect) and answer[0].time_out > 0:
            self.granted, self.sent_at = answer[0].time_out / 1000, sent_at
            self.heard_at = self._clock.now()
            if not request.session_id:
                self.opened_at = sent_at
        return answer


def new_client(options: Mapping[str, Any], *, ttl: float) -> tuple[Any, Trouble]:
    """Return a client of kazoo that has not been started, for one session."""
    trouble = Trouble()
    client = KazooClient(
        **options,
        timeout=ttl,
        handler=_Handler(trouble),
        logger=trouble,
        connection_retry=AGAIN,
    )
    _let_it_outlive_errors(client, trouble)
    return client, trouble


def _let_it_outlive_errors(client: Any, trouble: Trouble) -> None:  # noqa: ANN401
    """Let nothing that is raised on kazoo's thread end it: nobody would connect again.

    Its own words for an outage it knows how to handle. What else there is comes from below
    it, or from code of the application that it calls for credentials, and may pass.
    """
    connection = client._connection  # noqa: SLF001
    go_round = connection._connect_loop  # noqa: SLF001

    def go_round_again(retry: Any) -> Any:  # noqa: ANN401
        try:
            return go_round(retry)
        except ForceRetryError:
            raise
        except (Exception, SystemExit) as error:
            trouble.last = error
            if isinstance(error, SASLException):
                # No package for it, say: that does not pass.
                client._session_callback(KeeperState.AUTH_FAILED)  # noqa: SLF001
                return STOP_CONNECTING
            if client._state != KeeperState.CONNECTING:  # noqa: SLF001
                client._session_callback(KeeperState.CONNECTING)  # noqa: SLF001
            raise ForceRetryError(str(error)) from error

    connection._connect_loop = go_round_again  # noqa: SLF001


def tell_when_entered(client: Any, trouble: Trouble, entered: Callable[[], None]) -> None:  # noqa: ANN401
    """Call back when a connection can be used: greeted, and all credentials shown.

    kazoo says so after the greeting, and may then find that it cannot show them.
    """
    connect = client._connection._connect  # noqa: SLF001

    def enter(*place: Any) -> Any:  # noqa: ANN401
        try:
            timeouts = connect(*place)
        except AuthFailedError as error:
            if error.__cause__ is None or isinstance(error.__cause__, KazooException):
                raise
            # Not refused: the application's own code for credentials failed, and may not again.
            trouble.last = error.__cause__
            raise ConnectionDropped(str(error.__cause__)) from error
        entered()
        return timeouts

    client._connection._connect = enter  # noqa: SLF001


def start(client: Any, *, seconds: float) -> None:  # noqa: ANN401
    """Begin to connect; so that all members can be tried in that time, each gets a part of it."""
    client.handler.patience = max(0.1, min(CONNECT, seconds / (len(client.hosts) + 1)))
    client.start_async()


def stop_here(client: Any) -> None:  # noqa: ANN401
    """Let the client make no further session; its thread ends by itself.

    kazoo would open a new one and go on as if nothing had been lost.
    """
    client._stopped.set()  # noqa: SLF001


def say_goodbye(client: Any) -> None:  # noqa: ANN401
    """Ask the server to end the session now, with all its nodes; does not wait."""
    stop_here(client)
    client._queue.append((CloseInstance, None))  # noqa: SLF001
    _wake(client)


def hang_up(client: Any) -> None:  # noqa: ANN401
    """Cut the connection and say nothing: the session stays until its time is over.

    Unless it was told to stop, the client connects anew and keeps the session.
    """
    connection = client._connection._socket  # noqa: SLF001
    if connection is not None:
        with suppress(OSError):  # closed already
            connection.shutdown(2)
    _wake(client)


def _wake(client: Any) -> None:  # noqa: ANN401
    bell = client._connection._write_sock  # noqa: SLF001
    if bell is not None:
        with suppress(OSError):  # closed meanwhile
            bell.send(b"\0")


def finish(client: Any) -> None:  # noqa: ANN401
    """Wait for the client's thread, which is ending, and free what it used."""
    routine = client._connection._connection_routine  # noqa: SLF001
    if routine is not None:
        routine.join()
        client._connection._connection_routine = None  # noqa: SLF001
    client.close()


def wait_for_end(client: Any, seconds: float) -> bool:  # noqa: ANN401
    """Whether the client's thread has left its work within so many seconds."""
    stopped = client._connection.connection_stopped  # noqa: SLF001
    until = time.monotonic() + seconds
    while not stopped.is_set():
        if time.monotonic() >= until:
            return False
        # Not by its `wait`: an interrupt inside that becomes another error, and is lost.
        time.sleep(LOOK)
    return True
