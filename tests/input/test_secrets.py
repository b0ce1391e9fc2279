"""No password is ever shown, whatever is wrong with the URL that contains it."""

from __future__ import annotations

import logging

import pytest
from refusal import refusal

from lockfast import AsyncLocks, ConfigurationError, Locks, urls

SECRET = "hunter2-s3cr3t"


URLS_WITH_A_SECRET = [
    f"foo://user:{SECRET}@host",
    f"foo://:{SECRET}@host/0",
    f"foo://user:{SECRET}@host:nan/0?x=1",
    f"foo://user:{SECRET}@[bad",
    f"foo://user:{SECRET}@ho\u2100st",
    f"foo://user:{SECRET}@one@two",
    f"foo://user:a/{SECRET}@host",
    f"foo://user:a#{SECRET}@host",
    f"foo://user:a?{SECRET}@host",
    f"foo:user:{SECRET}@host",
    f"//user:{SECRET}@host",
    f"sqlite://user:{SECRET}@host/locks.db",
    f"sqlite://user:{SECRET}@host?password={SECRET}",
    f"memory://user:{SECRET}@host?password={SECRET}",
    f"redis://user:{SECRET}@ho\u2100st",
]


@pytest.mark.parametrize("url", URLS_WITH_A_SECRET)
@pytest.mark.parametrize("flavour", [Locks, AsyncLocks])
def test_no_refusal_shows_a_password(flavour, url, caplog):
    """No password appears in the error, in its cause, or in the log."""
    caplog.set_level(logging.DEBUG)

    with pytest.raises(ConfigurationError) as refused:
        flavour(url)

    error: BaseException | None = refused.value
    while error is not None:
        assert SECRET not in str(error)
        assert SECRET not in repr(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    assert SECRET not in caplog.text


SERVERS = [one for one in urls.schemes() if one not in ("memory", "sqlite", "unix")]


@pytest.mark.parametrize(
    ("login", "remedy"),
    [
        (f"user:{SECRET}#{SECRET}", "a # is written %23"),
        (f"user:{SECRET}/{SECRET}", "a / in a user or a password is written %2F"),
        (f":{SECRET}?{SECRET}", "a ? in a user or a password is written %3F"),
        (f":{SECRET}?a={SECRET}", "%3F"),
        (f"12/{SECRET}", "%2F"),
        (f"user:{SECRET}@x/{SECRET}", "%2F"),
        (f"user:{SECRET}@x?{SECRET}", "%3F"),
    ],
)
@pytest.mark.parametrize("scheme", SERVERS)
def test_a_password_that_was_not_encoded_is_not_taken_for_a_host_and_shown(scheme, login, remedy):
    """Forgetting to encode is the usual mistake with a randomly generated password."""
    told = refusal(lambda: Locks(f"{scheme}://{login}@host:1/0"))

    assert SECRET not in told
    assert remedy in told


@pytest.mark.parametrize("url", ["sqlite:///srv/a#b.db", "memory://a#b", "unix:///run/a#b.sock"])
def test_nothing_of_a_url_is_left_out_in_silence(url):
    """If the part after the # were dropped, two programs that name two files would share one."""
    assert "a # is written %23" in refusal(lambda: Locks(url))


def test_an_at_sign_in_the_path_of_a_file_is_no_login(tmp_path):
    (tmp_path / "a@b").mkdir()

    assert Locks(f"sqlite://{tmp_path}/a@b/c%23d.db").location == f"{tmp_path}/a@b/c#d.db"


@pytest.mark.parametrize("url", [f"memory://user:{SECRET}@host"])
def test_no_repr_shows_a_password(url, caplog):
    """No password appears in the repr of a client, lock, lease or finding, or in a log record."""
    caplog.set_level(logging.DEBUG)

    with Locks(url) as locks:
        lease = locks.lock("door").acquire()
        shown = [repr(locks), locks.location, repr(locks.lock("door")), repr(lease)]
        shown += [repr(locks.diagnose()), repr(locks.inspect("door"))]
        lease.release()

    assert SECRET not in " ".join(shown)
    assert SECRET not in caplog.text


@pytest.mark.parametrize("url", ["redis://user:pw@host:6379/0", "redis://:pw@host:6379/0"])
def test_what_is_no_secret_stays_readable(url):
    """A masked URL still shows which store it named."""
    shown = urls.masked(url)

    assert shown.startswith("redis://")
    assert shown.endswith("host:6379/0")
    assert "pw" not in shown


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("tls=true&password=pw", "tls=true&password=***"),
        ("ssl_ca_certs=/etc/ca.pem&db=2", "ssl_ca_certs=/etc/ca.pem&db=2"),
        ("pasword=pw", "pasword=***"),
        ("tls_key_password=pw&ssl_password=pw", "tls_key_password=***&ssl_password=***"),
        ("tls=true;password=pw", "tls=***"),
    ],
)
def test_of_the_options_only_what_may_be_secret_is_hidden(query, shown):
    """A misspelt name may belong to a password, so only known names are shown with their values."""
    told = refusal(lambda: Locks(f"redi://host?{query}"))

    assert f"'redi://host?{shown}'" in told


def test_a_password_given_as_an_option_is_not_shown(caplog):
    """The message shows the option's name, since the name is what was wrong."""
    told = refusal(lambda: Locks("memory://", password=SECRET))

    assert "unknown option password" in told
    assert SECRET not in told + caplog.text
