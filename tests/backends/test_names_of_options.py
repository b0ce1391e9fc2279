"""An option has one name of ours; what other libraries call it means the same."""

from __future__ import annotations

import pytest
import redis
from refusal import refusal

from lockfast import Locks
from lockfast_challenge.servers.certificates import certificates

STORES = {
    "redis": "redis://h",
    "redlock": "redlock://h1,h2,h3",
    "etcd": "etcd://h",
    "memcached": "memcached://h",
    "mysql": "mysql://app:pw@h/db",
}


@pytest.fixture(params=STORES)
def url(request) -> str:
    return STORES[request.param]


def server_of(locks: Locks):
    return locks._client.backend._transport._server


# -- the code and the URL --------------------------------------------------------------


@pytest.mark.parametrize(
    "in_url", ["ssl_cert_reqs=none", "ssl_check_hostname=false", "tls_verify=none"]
)
def test_a_check_that_the_code_asks_for_is_not_weakened_by_the_url(in_url):
    """Only the names from one source are combined, so that none of them turns the check off."""
    with Locks(f"rediss://h?{in_url}", tls_verify="full") as locks:
        assert server_of(locks).target.tls.verify == "full"


@pytest.mark.parametrize("name", ["tls_ca", "ssl_ca", "ssl_ca_certs"])
@pytest.mark.parametrize("in_url", ["tls_ca", "ssl_ca", "ssl_ca_certs"])
def test_a_file_in_the_code_overrides_every_name_of_it_in_the_url(name, in_url):
    with Locks(f"rediss://h?{in_url}=/nowhere", **{name: certificates().authority}) as locks:
        assert server_of(locks).target.tls.ca == certificates().authority


@pytest.mark.parametrize(("name", "in_url"), [("user", "username"), ("username", "user")])
def test_a_user_in_the_code_overrides_both_names_in_the_url(name, in_url):
    with Locks(f"redis://h?{in_url}=theirs&password=pw", **{name: "ours"}) as locks:
        assert server_of(locks).login.fixed == (b"ours", b"pw")


# -- two names -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [({"username": "a"}, {"user": "b"}), ({"tls_ca": "a"}, {"ssl_ca_certs": "b"})],
)
def test_two_names_of_one_option_with_different_values_are_refused(url, one, other):
    """One of the two would silently be ignored."""
    told = refusal(lambda: Locks(url, **one, **other))

    where = url.replace("app:pw@", "***@")
    names = f"{next(iter(one))} and {next(iter(other))}"
    assert told == (
        f"{where}: {names} are two names of one option and have different values; give one of them"
    )


def test_two_names_of_one_option_may_have_the_same_value():
    with Locks("redis://h", username="a", user="a", tls="true", ssl=1) as locks:
        assert server_of(locks).login.username == "a"
        assert server_of(locks).target.tls is not None


def test_none_counts_as_not_given(url):
    with Locks(url, username=None, password=None, tls=None, tls_ca=None, user=None) as locks:
        assert "None" not in repr(locks)


# -- bytes -----------------------------------------------------------------------------


def test_bytes_of_a_client_are_the_text_of_its_login():
    """Otherwise the password would be what Python shows of it, `b'…'`."""
    client = redis.Redis(username=b"me", password=b"s3cret")

    with Locks.from_client(client) as locks:
        assert server_of(locks).login.fixed == (b"me", b"s3cret")


@pytest.mark.parametrize("password", [b"s3cret", "s\u00e9cret".encode(), b"\xff\x00"])
def test_a_password_may_be_given_as_bytes(password):
    with Locks("redis://h", password=password) as locks:
        assert server_of(locks).login.fixed == (password,)


# -- misspelt --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("misspelt", "hint"),
    [("ssl_ca_cert", "did you mean tls_ca"), ("ssl_certfil", "tls_cert"), ("usr", "username")],
)
def test_a_misspelt_alias_is_refused_with_our_name(url, misspelt, hint):
    told = refusal(lambda: Locks(url, **{misspelt: "x"}))

    suggestions = told.partition("did you mean ")[2].partition("?")[0].split(" or ")
    assert hint in told.partition("accepted: ")[0]
    assert len(suggestions) <= 2
    assert not [one for one in suggestions if one.startswith("ssl") or one == "user"]


def test_a_misspelt_option_of_a_node_is_refused_with_the_right_one():
    told = refusal(lambda: Locks("redlock://h1,h2,h3", nodes=[{"passwrd": "x"}, {}, {}]))

    assert told.startswith("unknown option passwrd for a node; did you mean password")


@pytest.mark.parametrize(
    ("url", "option", "own"),
    [
        ("zookeeper://h", "tls", "use_ssl"),
        ("zookeeper://h", "tls_ca", "ca"),
        ("zookeeper://h", "ssl_certfile", "certfile"),
        ("postgresql://h/db", "tls", "sslmode"),
        ("postgresql://h/db", "tls_ca", "sslrootcert"),
        ("postgresql://h/db", "tls_verify", "sslmode"),
        ("postgresql://h/db", "username", "user"),
    ],
)
def test_an_option_that_the_driver_calls_otherwise_is_refused_with_its_name(url, option, own):
    """The connections of these stores are made by a driver, under whose names its users know it."""
    told = refusal(lambda: Locks(url, **{option: "x"}))

    assert f"unknown option {option} for {url.partition('://')[0]}://; did you mean {own}?" in told
