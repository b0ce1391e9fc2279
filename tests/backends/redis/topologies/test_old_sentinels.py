"""Sentinels older than 6.2, which know neither HELLO nor RESP3."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import pytest
from refusals import PASSWORD
from servers.redis import shared_server
from servers.talker import Talker

from lockfast import BackendUnavailable, ConfigurationError
from lockfast.backends.redis.resp import NEED_MORE, RespCodec, packed

SERVICE = "mymaster"
WHERE_IS = packed(b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", SERVICE.encode())


def array(*items: bytes) -> bytes:
    return b"*%d\r\n" % len(items) + b"".join(items)


def bulk(text: str) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(text), text.encode())


class OldSentinel:
    """Answers in RESP2, and only the commands that a Sentinel has had since Redis 2.8."""

    def __init__(
        self, master: int, *, password: str = "", flags: str = "master", lacks: str = ""
    ) -> None:
        self.master = master
        self.flags = flags
        self.lacks = lacks
        self.elected = array(bulk("127.0.0.1"), bulk(str(master)))
        self.commands: list[Sequence[bytes]] = []
        self._password = password
        self._is_let_in = not password

    def answer(self, data: bytes) -> bytes:
        """Return the replies to the requests in the data."""
        requests = RespCodec()
        requests.feed(data)
        replies = b""
        while (request := requests.next()) is not NEED_MORE:
            self.commands.append(request)
            replies += self._reply_to(*request)
        return replies

    def _reply_to(self, command: bytes, *arguments: bytes) -> bytes:
        if command == b"AUTH":
            if not self._password:
                return b"-ERR Client sent AUTH, but no password is set\r\n"
            self._is_let_in = arguments == (self._password.encode(),)
            return b"+OK\r\n" if self._is_let_in else b"-ERR invalid password\r\n"
        if not self._is_let_in:
            return b"-NOAUTH Authentication required.\r\n"
        if (command, *arguments) == (b"SENTINEL", b"MASTERS"):
            return array(self._master_state())
        if packed(command, *arguments) == WHERE_IS:
            return self.elected
        return b"-ERR unknown command '%s'\r\n" % command

    def _master_state(self) -> bytes:
        facts = {
            "name": SERVICE,
            "ip": "127.0.0.1",
            "port": str(self.master),
            "flags": self.flags,
            "config-epoch": "3",
        }
        facts.pop(self.lacks, None)
        return array(*(bulk(word) for fact in facts.items() for word in fact))


OldSentinels = Callable[..., tuple[str, list[OldSentinel]]]


@pytest.fixture
def old_sentinels() -> Iterator[OldSentinels]:
    """Return a function that starts two old Sentinels; it returns their URL and what they saw."""
    with ExitStack() as stack:

        def start(master: int, **options: str) -> tuple[str, list[OldSentinel]]:
            seen = [OldSentinel(master, **options) for _ in range(2)]
            talkers = [Talker("redis", answer=one.answer) for one in seen]
            for one in talkers:
                stack.callback(one.close)
            hosts = ",".join(f"127.0.0.1:{one.port}" for one in talkers)
            return f"redis+sentinel://{hosts}/{SERVICE}", seen

        yield start


@pytest.mark.parametrize("password", ["", PASSWORD])
def test_they_are_asked_in_words_that_they_know(drivers, old_sentinels, password):
    """The master is found, with and without a login, and no HELLO is sent to a Sentinel."""
    url, seen = old_sentinels(shared_server().port, password=password)
    login = {"sentinel_password": password} if password else {}

    for one in drivers(url, **login):
        one.release(one.acquire("door"))

    commands = {one[0] for sentinel in seen for one in sentinel.commands}
    assert commands == {b"SENTINEL", b"AUTH"} if password else {b"SENTINEL"}


def test_the_leader_of_a_failover_is_asked_for_the_new_master(drivers, old_sentinels):
    """The leader still lists the old master, where nothing listens any more."""
    url, seen = old_sentinels(1, flags="master,failover_in_progress")
    for one in seen:
        one.elected = array(bulk("127.0.0.1"), bulk(str(shared_server().port)))

    for one in drivers(url):
        one.release(one.acquire("door"))


def test_a_leader_that_has_promoted_none_yet_keeps_its_master(drivers, old_sentinels):
    """RESP2 has an array of its own for nothing."""
    url, seen = old_sentinels(shared_server().port, flags="master,failover_in_progress")
    for one in seen:
        one.elected = b"*-1\r\n"

    for one in drivers(url):
        one.release(one.acquire("door"))


@pytest.mark.parametrize(
    ("theirs", "ours", "sentence"),
    [
        (PASSWORD, {}, "asks for a password of its own; give sentinel_password"),
        (PASSWORD, {"sentinel_password": "other"}, "correct sentinel_username and"),
        ("", {"sentinel_password": PASSWORD}, "leave sentinel_password out"),
    ],
)
def test_a_login_that_does_not_fit_is_a_sentence(drivers, old_sentinels, theirs, ours, sentence):
    url, _ = old_sentinels(shared_server().port, password=theirs)

    for one in drivers(url, request_timeout=5.0, **ours):
        with pytest.raises(ConfigurationError, match=sentence) as told:
            one.acquire("door", timeout=5)
        assert PASSWORD not in str(told.value)


@pytest.mark.parametrize(
    ("port", "lacks"),
    [(6379, "flags"), (6379, "ip"), (6379, "config-epoch"), (99999, ""), (0, "")],
)
def test_an_answer_of_odd_shape_is_an_outage(drivers, old_sentinels, port, lacks):
    """Neither a missing fact nor an impossible port is raised as what it does to our code."""
    url, _ = old_sentinels(port, lacks=lacks)

    for one in drivers(url, request_timeout=2.0):
        with pytest.raises(BackendUnavailable, match="cannot be read"):
            one.acquire("door", timeout=0.5)
