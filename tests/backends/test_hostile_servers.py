"""Servers that end, stop or flood a conversation at any byte, or speak another protocol.

Whatever such a server does, no call outlasts its deadline, no lease is granted that the store does
not confirm, every error has the class that tells the caller what to do, and the client works again
once the server does. The ttl is longer than any test, so a lock that becomes free was freed by a
client.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import accumulate, cycle, islice, product
from random import Random
from typing import Any, NamedTuple

import pytest
from both_flavours import FLAVOURS, Flavour
from fault_scene import new_name
from lengths import IS_LONG
from servers import etcd, memcached, redis
from servers.hostile import Hostile, Hostility

from lockfast import (
    AsyncLocks,
    BackendMisbehaved,
    BackendUnavailable,
    ConfigurationError,
    LockError,
    OutcomeUnknown,
)
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.certificates import certificates
from lockfast_challenge.servers.server import Server

TTL = 120.0
PATIENT = 20.0
"""Request timeout of a client whose server replies or ends the connection, in seconds."""
BRIEF = 0.3
"""Request timeout of a client whose server may say nothing, in seconds."""
HANGS = 30.0
"""A time in seconds that only a call without a working deadline exceeds, however busy the machine
is."""
LONG = 1800
"""Time limit of a test that ends the conversation at every byte, in seconds."""
AT_ONCE = 16
"""Number of clients that a test uses at once."""

AWAY = BackendUnavailable, OutcomeUnknown
REFUSED = ConfigurationError, BackendUnavailable

PLAIN = {
    "redis": redis.shared_server,
    "memcached": memcached.shared_server,
    "etcd": etcd.shared_server,
}


class Scene:
    """A server that is always healthy, and clients of one flavour."""

    def __init__(
        self, flavour: Flavour, namespace: str, scheme: str, server: Server, **options: Any
    ) -> None:
        self.scheme = scheme
        self.port = server.port
        self._flavour = flavour
        self._options = {**options, "namespace": namespace, "ttl": TTL}
        self.healthy = self.client(f"{scheme}://127.0.0.1:{self.port}")

    def hostile(self) -> Hostile:
        """Return a proxy in front of the server, which the test makes hostile."""
        return Hostile(self.port, scheme=self.scheme)

    def client(self, url: str, *, request_timeout: float = PATIENT) -> Any:
        """Return a client."""
        return self._flavour.locks(url, request_timeout=request_timeout, **self._options)

    def ended(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Return the result of a call, or the LockError that it raised; fail if it hangs."""
        running = self._flavour.start(call, *arguments, **options)
        error = running.exception(HANGS)
        return error if isinstance(error, LockError) else running.result()

    def close(self, locks: Any) -> None:
        """Close a client, which must not hang either."""
        assert self.ended(getattr(locks, "close", None) or locks.aclose) is None

    def asked(self, locks: Any, name: str, *, timeout: float = PATIENT) -> Any:
        """Return a lease that nothing renews in the background, or the LockError."""
        return self.ended(locks.lock(name, renew=False).acquire, timeout=timeout)

    def is_held(self, lease: Any) -> bool:
        """Return whether the store, asked over another connection, confirms the lease."""
        token = None if self.scheme == "memcached" else lease.token
        [holder] = self.healthy.inspect(lease.name).holders
        return bool(holder.token == token and str(holder.owner) == lease.owner)

    def is_in_use(self, name: str) -> bool:
        """Return whether a claim to this name is left in the store."""
        return bool(self.healthy.inspect(name).is_in_use)

    def works(self, locks: Any, name: str) -> bool:
        """Return whether a client gets the lock and frees it; raise AWAY if it has to try again."""
        lease = locks.lock(name, renew=False).acquire(timeout=PATIENT)
        assert self.is_held(lease)
        lease.release()
        return not self.is_in_use(name)

    def recovers(self, locks: Any, name: str) -> None:
        """Wait until another client gets the lock, and then the client itself; close the client."""
        self.healthy.lock(name).acquire(timeout=HANGS).release()
        eventually(lambda: self.works(locks, name), what="the client works", despite=AWAY)
        self.close(locks)


@pytest.fixture(params=PLAIN)
def scene(request, flavour, namespace) -> Scene:
    return Scene(flavour, namespace, request.param, PLAIN[request.param]())


def for_each(cases: Iterable[Any], test: Callable[[Any], None]) -> None:
    """Test several cases at once, and raise what failed with the cases."""

    def failure(case: Any) -> Exception | None:
        try:
            test(case)
        except Exception as error:  # noqa: BLE001 - raised below, with all others
            error.add_note(f"in the case {case}")
            return error
        return None

    with ThreadPoolExecutor(AT_ONCE) as threads:
        failures = [one for one in threads.map(failure, cases) if one is not None]
    if failures:
        raise ExceptionGroup(f"{len(failures)} cases failed", failures)


# -- a conversation that is cut off --------------------------------------------------------

CUTS = 50
WAYS = tuple(product(("close", "reset"), (True, False)))
"""How a conversation is cut off, and whether only once."""


def cuts(replies: list[int], flavour: str) -> list[Hostility]:
    """Return where and how to cut off a conversation with replies of these lengths.

    The long form cuts after every byte in every way. The short form cuts after so many bytes spread
    over the conversation, and beside the first and the last byte of every reply.
    """
    places = range(sum(replies) + 1)
    if IS_LONG:
        ways = [(after, way) for after in places for way in WAYS]
    else:
        ends = accumulate(replies, initial=0)
        beside = {end + step for end in ends for step in (-1, 0, 1)}
        spread = places[:: max(1, len(places) // CUTS)]
        chosen = sorted(beside.intersection(places).union(spread))
        # The flavours begin with different ways, so most places are cut in two ways.
        turns = islice(cycle(WAYS), FLAVOURS.index(flavour), None)
        ways = list(zip(chosen, turns, strict=False))
    return [Hostility(then, after=after, is_once=once) for after, (then, once) in ways]


def converse(scene: Scene, locks: Any, name: str) -> Any:
    """Acquire, renew and release; return the error of the acquire, if it failed.

    After each step, the store has to agree with what the client was told.
    """
    lease = scene.asked(locks, name)
    if isinstance(lease, LockError):
        assert isinstance(lease, AWAY), repr(lease)
        # Nothing was sent, or it was withdrawn.
        assert isinstance(lease, OutcomeUnknown) or not scene.is_in_use(name)
        return lease
    assert scene.is_held(lease)
    renewed = scene.ended(lease.renew)
    assert renewed is None or isinstance(renewed, AWAY), repr(renewed)
    lease.check()
    assert scene.is_held(lease)
    released = scene.ended(lease.release)
    assert isinstance(released, AWAY) or (released is None and not scene.is_in_use(name))
    return None


def recorded(scene: Scene) -> list[int]:
    """Return the lengths of the replies in a conversation with a server that knows our scripts."""
    with scene.hostile() as hostile:
        for _ in range(2):
            hostile.replies.clear()
            locks = scene.client(hostile.url)
            assert converse(scene, locks, new_name()) is None
            found = list(hostile.replies)
            scene.close(locks)
    return found


@pytest.mark.timeout(LONG if IS_LONG else 180)  # up to twelve thousand conversations
def test_a_conversation_cut_off_anywhere_leaves_nothing_behind(scene, flavour):
    """Each step succeeds or fails as unavailable or unknown, and the lock can be had again."""
    replies = recorded(scene)

    def cut(hostility: Hostility) -> None:
        with scene.hostile() as hostile:
            hostile.turn(hostility)
            locks = scene.client(hostile.url)
            # The bytes may be spread over two connections, or fewer than recorded.
            for _ in range(5):
                name = new_name()
                error = converse(scene, locks, name)
                if hostile.has_struck.is_set():
                    break
            assert hostile.has_struck.wait(HANGS)  # it is set only after the last bytes were sent
            if hostility.after < min(replies) / 2 and not hostility.is_once:
                assert isinstance(error, BackendUnavailable)  # no connection was ever made
            hostile.heal()
            scene.recovers(locks, name)

    for_each(cuts(replies, flavour.name), cut)


# -- silence, floods, other protocols ------------------------------------------------------

LINES = {
    "redis": b"-ERR unknown command 'x', with args beginning with: \r\n",
    "memcached": b"ERROR\r\nERROR\r\n",
    "http": b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
    "ssh": b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n",
}
SETTINGS = b"\0\0\0\4" + bytes(5)
RANDOM = Random(30).randbytes(5000)  # noqa: S311 - no secrets
UNASKED = {
    "redis": b">2\r\n+hello\r\n+world\r\n",
    "memcached": b"STAT x 1\r\n",
    "etcd": b"\0\0\x08\x06" + bytes(13),  # a ping
}


class Situation(NamedTuple):
    """What a server does, and the errors of a client that connects to it."""

    what: str
    hostility: Hostility
    errors: tuple[type[LockError], ...]


def situations(scheme: str) -> Iterator[Situation]:
    """Yield what a server of this protocol may do to its clients."""
    yield Situation("silence", Hostility("silence"), (BackendUnavailable,))
    yield Situation("half a reply", Hostility("silence", after=2), (BackendUnavailable,))
    for then in ("close", "silence"):
        for kind, lines in LINES.items():
            if kind != scheme:
                yield Situation(f"{kind}, {then}", Hostility(then, lines), (ConfigurationError,))
        # Without the end of a line, this may look like the beginning of a reply.
        if scheme != "etcd":
            yield Situation(f"frames, {then}", Hostility(then, SETTINGS), REFUSED)
        yield Situation(f"random bytes, {then}", Hostility(then, RANDOM), REFUSED)
    yield Situation("a flood of random bytes", Hostility("flood", RANDOM), REFUSED)
    yield Situation("a flood of messages", Hostility("flood", UNASKED[scheme]), REFUSED)


def test_a_server_that_is_hostile_from_the_start_is_refused_in_time(scene):
    """Nothing was done, and what an operator has to correct is a ConfigurationError."""

    def connect(situation: Situation) -> None:
        with scene.hostile() as hostile:
            name = new_name()
            # What is certain once the server has replied needs no timeout, and the reply may be
            # late on a busy machine.
            within = PATIENT if situation.errors == (ConfigurationError,) else BRIEF
            locks = scene.client(hostile.url, request_timeout=within)
            hostile.turn(situation.hostility)

            error = scene.asked(locks, name, timeout=within)

            assert isinstance(error, situation.errors), repr(error)
            assert name.encode() not in hostile.requests
            hostile.heal()
            scene.recovers(locks, name)

    for_each(situations(scene.scheme), connect)


def test_a_server_that_turns_hostile_takes_no_lease_and_grants_none(scene):
    """A request that was sent has an unknown outcome, and the lease held before stays ours."""

    def turn(situation: Situation) -> None:
        is_quiet = not situation.hostility.words
        errors = AWAY if is_quiet else (*AWAY, ConfigurationError, BackendMisbehaved)
        with scene.hostile() as hostile:
            name, other = new_name(), new_name()
            locks = scene.client(hostile.url, request_timeout=BRIEF)
            lease = insisted(scene, locks, name)
            hostile.turn(situation.hostility)

            error = scene.asked(locks, other, timeout=BRIEF)
            was_sent = other.encode() in hostile.requests
            assert isinstance(error, OutcomeUnknown if was_sent else AWAY), repr(error)

            error = scene.ended(lease.renew)
            # The session of etcd may have been confirmed so recently that no request is needed.
            is_confirmed = error is None and scene.scheme == "etcd"
            assert is_confirmed or isinstance(error, errors), repr(error)

            hostile.heal()
            eventually(lambda: lease.renew() is None, what="it is renewed", despite=AWAY)
            assert scene.is_held(lease)
            hostile.turn(situation.hostility)

            error = scene.ended(lease.release)
            assert isinstance(error, errors), repr(error)

            hostile.heal()
            scene.healthy.lock(other).acquire(timeout=HANGS).release()
            scene.recovers(locks, name)

    for_each(situations(scene.scheme), turn)


def insisted(scene: Scene, locks: Any, name: str) -> Any:
    """Return a lease, although the client is impatient and the machine may be busy."""
    found: list[Any] = []
    eventually(
        lambda: not found.append(locks.lock(name, renew=False).acquire(timeout=PATIENT)),
        what="it is acquired",
        despite=AWAY,
    )
    assert scene.is_held(found[0])
    return found[0]


def test_one_reply_in_another_protocol_is_an_error_and_changes_nothing(scene):
    """Where replies are lines, it is unreadable; on HTTP/2 the connection ends, as when cut off."""
    is_lines = scene.scheme != "etcd"
    odd = Hostility("silence", LINES["http"], is_once=True)
    with scene.hostile() as hostile:
        name, other = new_name(), new_name()
        locks = scene.client(hostile.url)
        lease = insisted(scene, locks, name)

        def after_an_odd_reply(call: Callable[..., Any]) -> Any:
            eventually(lambda: scene.works(locks, new_name()), what="connected", despite=AWAY)
            hostile.turn(odd)
            outcome = scene.ended(call)
            assert hostile.has_struck.wait(HANGS)  # it is set only after the last bytes were sent
            hostile.heal()
            return outcome

        acquired = after_an_odd_reply(locks.lock(other, renew=False).acquire)
        renewed = after_an_odd_reply(lease.renew)
        assert scene.is_held(lease)
        released = after_an_odd_reply(lease.release)

        if is_lines:
            assert isinstance(acquired, BackendMisbehaved), repr(acquired)
            assert not scene.is_in_use(other)
        elif not isinstance(acquired, AWAY):
            assert scene.is_held(acquired)
            acquired.release()
        for error in (renewed, released):
            repeated = error is None and not is_lines
            assert repeated or isinstance(error, (BackendMisbehaved, *AWAY)), repr(error)
        scene.recovers(locks, name)


def test_a_client_leaves_a_connection_that_brings_no_reply(scene):
    """Other messages may go on for ever, but a new connection to the server would bring replies."""
    with scene.hostile() as hostile:
        name = new_name()
        locks = scene.client(hostile.url, request_timeout=BRIEF)
        insisted(scene, locks, name).release()
        hostile.turn(Hostility("flood", UNASKED[scene.scheme], is_once=True))

        outcome = scene.asked(locks, name, timeout=BRIEF)

        assert hostile.has_struck.is_set()
        if isinstance(outcome, LockError):
            assert isinstance(outcome, AWAY), repr(outcome)
        else:
            outcome.release()
        scene.recovers(locks, name)


@pytest.mark.parametrize("scheme", PLAIN)
def test_a_connect_whose_time_is_up_leaves_no_error_that_asyncio_reports(scheme, namespace):
    """The time is up at different points of connecting; none may leave a failed future behind."""
    url = f"{scheme}://127.0.0.1:{PLAIN[scheme]().port}"
    reported: list[str] = []

    async def connect() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context["message"]))
        for step in range(200):
            within = 0.0002 + 0.00002 * step
            async with AsyncLocks(url, namespace=namespace, request_timeout=within) as locks:
                with suppress(LockError):
                    await locks.lock("door").acquire(timeout=0)
        gc.collect()

    asyncio.run(connect())

    assert not reported


# -- TLS -----------------------------------------------------------------------------------


@pytest.fixture
def secure(scene, flavour, namespace) -> Scene:
    """A server of the same kind with TLS, and clients that trust it."""
    if scene.scheme == "memcached":
        options = {"ssl": "true", "ssl_ca": certificates().authority}
        return Scene(flavour, namespace, "memcached", memcached.shared_tls_server(), **options)
    server = {"redis": redis, "etcd": etcd}[scene.scheme].shared_tls_server()
    options = certificates().client_options()
    return Scene(flavour, namespace, f"{scene.scheme}s", server, **options)


def test_tls_on_one_side_only_is_refused_in_time(scene, secure):
    """The same client works once a server with its own setting answers at the address."""

    def connect(case: tuple[Scene, Scene]) -> None:
        ours, theirs = case
        with Hostile(theirs.port, scheme=ours.scheme) as hostile:
            name = new_name()
            locks = ours.client(hostile.url, request_timeout=BRIEF)

            error = ours.asked(locks, name, timeout=BRIEF)

            assert isinstance(error, REFUSED), repr(error)
            assert name.encode() not in hostile.requests
            hostile.forward_to(ours.port)
            ours.recovers(locks, name)

    for_each([(scene, secure), (secure, scene)], connect)


GOODBYE = bytes.fromhex("15030300020100")
"""The message with which a TLS server announces that it closes the connection."""


def test_a_tls_handshake_cut_off_anywhere_is_an_outage(secure):
    """A server that restarts or is full does that, so it does not prove that an option is wrong."""
    flight, *_ = recorded(secure)
    # The length of a signature varies by a few bytes, so the place of the last byte does too.
    places = (0, 1, 5, 6, flight // 2, flight - 10)
    ways = product(("close", "reset"), places)
    cut_off = [Hostility(then, after=after) for then, after in ways]

    def connect(hostility: Hostility) -> None:
        with secure.hostile() as hostile:
            name = new_name()
            locks = secure.client(hostile.url)
            hostile.turn(hostility)

            error = secure.asked(locks, name)

            assert hostile.has_struck.wait(HANGS)  # it is set only after the last bytes were sent
            assert isinstance(error, BackendUnavailable), repr(error)
            # The server may also have no TLS, or ask for a certificate that we do not show.
            for hint in ("closed the connection before", "does it speak TLS", "(tls_cert)?"):
                assert hint in str(error)
            hostile.heal()
            secure.recovers(locks, name)

    for_each([*cut_off, Hostility("close", GOODBYE)], connect)
