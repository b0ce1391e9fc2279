"""Servers and URLs that cannot be used are refused with a sentence that says what to do."""

from __future__ import annotations

import pytest
from refusal import refusal as told_by
from refusals import PASSWORD

from lockfast import BackendUnavailable, ConfigurationError, Locks
from lockfast_challenge.servers.certificates import certificates
from lockfast_challenge.servers.memcached import MemcachedServer, RawConnection


@pytest.fixture
def guarded_server(outliving):
    return outliving.enter_context(MemcachedServer(login=f"app:{PASSWORD}"))


@pytest.fixture
def tls_server(outliving):
    return outliving.enter_context(MemcachedServer(tls=certificates()))


def test_nobody_listens(refusal):
    error = refusal("memcached://127.0.0.1:1")

    assert isinstance(error, BackendUnavailable)
    assert "nothing listens" in str(error)


def test_the_host_has_no_address(refusal):
    error = refusal("memcached://no-such-host.invalid:11211")

    assert isinstance(error, BackendUnavailable)


def test_a_login_opens_the_server(flavour, guarded_server):
    with_url = flavour.locks(guarded_server.url)
    with_options = flavour.locks(guarded_server.bare_url, user="app", password=PASSWORD)

    lease = with_url.lock("door").acquire()

    assert with_options.lock("door").try_acquire() is None
    lease.release()


def test_a_password_is_not_told_to_a_server_that_asks_for_none(flavour, server):
    """Such a server would store the password as an item that everybody can read."""
    locks = flavour.locks(server.bare_url, user="app", password=PASSWORD)

    locks.lock("door").acquire().release()

    assert server.say(b"mg auth v\r\n") == [b"EN\r\n"]


def test_a_password_is_missing(refusal, guarded_server):
    error = refusal(guarded_server.bare_url)

    assert isinstance(error, ConfigurationError)
    assert "asks for a user and a password" in str(error)


def test_a_password_is_wrong(refusal, guarded_server):
    error = refusal(guarded_server.bare_url, user="other", password=PASSWORD)

    assert isinstance(error, ConfigurationError)
    assert "rejected this user name" in str(error)


def test_tls_carries_locks(flavour, tls_server):
    options = {"ssl_ca": certificates().authority}
    locks = flavour.locks(tls_server.url, **options)

    lease = locks.lock("door").acquire()

    assert flavour.locks(tls_server.url, **options).lock("door").try_acquire() is None
    lease.release()


def test_a_certificate_is_not_trusted(refusal, tls_server):
    error = refusal(tls_server.url, ssl="true")

    assert isinstance(error, ConfigurationError)
    assert "certificate is not trusted here" in str(error)
    assert "tls_ca" in str(error)


def test_a_server_wants_tls(refusal, tls_server):
    error = refusal(tls_server.url, within=2.0)

    assert isinstance(error, BackendUnavailable)
    assert "does it want TLS (then tls=true)?" in str(error)


def test_a_server_does_not_speak_tls(refusal, server):
    error = refusal(server.url, ssl="true")

    assert isinstance(error, ConfigurationError | BackendUnavailable)
    assert "leave the TLS options out" in str(error)


def test_another_protocol_answers(refusal, talker):
    there = talker(answer=lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n")

    error = refusal(there.url)

    assert isinstance(error, ConfigurationError)
    assert "not as a memcached server" in str(error)


def test_a_server_that_knows_no_meta_commands_is_too_old(refusal, talker):
    there = talker(answer=lambda _: b"ERROR\r\n")

    error = refusal(there.url)

    assert isinstance(error, ConfigurationError)
    assert "1.6" in str(error)


def test_silence_is_told_in_time(refusal, talker):
    error = refusal(talker().url, within=0.5)

    assert isinstance(error, BackendUnavailable)
    assert "did not answer in time" in str(error)


SIZES = (100, 140, 170, 190, 240)
"""One size for each slab class that our items may be in, because each class has its own pages."""


def test_a_full_server_that_evicts_nothing_says_so(flavour, outliving):
    """A full server cannot store a new name, and the error says why."""
    server = outliving.enter_context(MemcachedServer("-m", "2", "-M"))
    locks = flavour.locks(server.url)
    with server.talk() as talk:
        for size in SIZES:
            fill(talk, size)

    with pytest.raises(BackendUnavailable, match="out of memory"):
        locks.lock("new").acquire(timeout=0)


def fill(talk: RawConnection, size: int) -> None:
    """Write records of this size until the server has no room for another."""
    for thousand in range(20):
        keys = (b"f%d-%d-%d" % (size, thousand, number) for number in range(1000))
        talk.send(b"".join(b"ms %b %d T0 q\r\n%b\r\n" % (key, size, b"x" * size) for key in keys))
        if b"out of memory" in talk(b"mn\r\n", ends=b"MN\r\n"):
            return
    raise AssertionError(size)


def test_a_server_that_lists_no_keys_says_so(flavour, outliving):
    server = outliving.enter_context(MemcachedServer("-X"))
    locks = flavour.locks(server.url)
    locks.lock("door").acquire()

    with pytest.raises(ConfigurationError, match="lockfast show"):
        list(locks.survey())

    assert locks.inspect("door").holders


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("memcached://h1:1,h2:2", "several servers"),
        ("memcached://h:99999", "port"),
        ("memcached://h/path", "no path"),
        ("memcached://", "write memcached://host"),
        ("memcached://app@h", "name and password"),
        ("memcached://app:se%20cret@h", "space"),
        ("memcached://h?ssl=perhaps", "true or false"),
        ("memcached://h?ssl_ca=/no/such/file", "tls_ca=/no/such/file cannot be read"),
        ("memcached://h?unsafe_clock_tokens=perhaps", "true or false"),
        ("memcached://h?nothing=1", "nothing"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_before_anything_is_sent(url, words):
    sentence = told_by(lambda: Locks(url))

    assert words in sentence
    assert "cret" not in sentence
