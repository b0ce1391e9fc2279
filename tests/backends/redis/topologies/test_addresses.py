"""What a URL says about where the servers are."""

from __future__ import annotations

import pytest

from lockfast import ConfigurationError, Locks
from lockfast.backends.redis.address import address_of_url
from lockfast_challenge.servers.certificates import certificates


def read(url: str, **options: object):
    return address_of_url(url, where="somewhere", options=options)


def test_sentinels_and_the_name_of_their_master():
    address = read(
        "redis+sentinel://me:s%2Fe@h1,h2:1234,[::1]:5/my%20master",
        sentinel_password="other",
        db="3",
    )

    assert address.endpoints == (("h1", 26379), ("h2", 1234), ("::1", 5))
    assert address.service == "my master"
    assert address.server.login.fixed == (b"me", b"s/e")
    assert address.server.db == 3
    assert address.server.target.tls is None
    assert address.sentinel.login.fixed == (b"other",)
    assert address.sentinel.target.tls is None


def test_nodes_of_a_cluster_with_tls():
    address = read("rediss+cluster://:pw@h1,h2:7000", tls_ca=certificates().authority)

    assert address.topology == "cluster"
    assert address.endpoints == (("h1", 6379), ("h2", 7000))
    assert address.server.login.fixed == (b"pw",)
    assert address.server.target.tls.ca == certificates().authority


def test_sentinels_are_spoken_to_with_the_same_tls():
    address = read("rediss+sentinel://h1/m", tls_ca=certificates().authority)

    assert address.sentinel.target.tls == address.server.target.tls
    assert address.sentinel.target.tls.ca == certificates().authority


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("redis+sentinel://h1,h2", "must end in the name"),
        ("redis+sentinel://h1/a/b", "must end in the name"),
        ("redis+sentinel://h1/mymaster/1", "/mymaster; give the database as \\?db=1"),
        ("redis+sentinel:///m", "names no host"),
        ("redis+sentinel://h1:port/m", "is not a host or host:port"),
        ("redis+cluster://h1:99999", "the port is a number below 65536, not 99999"),
        ("redis+cluster://h1/3", "a cluster has no databases"),
        ("redis+cluster://h1?db=1", "a cluster has no databases"),
        ("redis+cluster://", "names no host"),
        ("redis+cluster://h1?sentinel_password=x", "only for redis"),
        ("redis://h1?sentinel_password=x", "only for redis"),
        ("redis://h1:port", "'h1:port' is not a host or host:port"),
        ("rediss://h1:99999/0", "the port is a number below 65536, not 99999"),
        ("redis://h1:0", "the port is a number below 65536, not 0"),
        (
            "redis://h1/1?db=2",
            "redis://h1/1: the path and db=2 are two databases; give one of them",
        ),
        ("redlock://h1,h2,h3/1?db=2", "the path and db=2 are two databases"),
        ("redis://h1:1,h2:2/0", r"redis\+cluster://h1:1,h2:2 and"),
        ("rediss://h1,h2", "redlocks://h1,h2"),
        ("redis://h1?db=x", "redis://h1: db must be a database number such as 0, not 'x'"),
        ("redis://h1/abc", "must be a database number such as /0, not 'abc'"),
        ("redis://h1/0/shop", "must be a database number such as /0, not '0/shop'"),
        ("rediss://h1/1/2", "must be a database number such as /0, not '1/2'"),
        ("unix://host/path.sock", "unix:///run/redis.sock"),
        ("unix://", "unix:///run/redis.sock"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused(url, sentence):
    """The error is raised when the client is created, before any connection is tried."""
    with pytest.raises(ConfigurationError, match=sentence):
        Locks(url)


@pytest.mark.parametrize("url", ["redis://h1/2?db=2", "redis://h1/2", "redis://h1?db=2"])
def test_a_database_may_be_named_twice_alike(url):
    with Locks(url) as locks:
        assert locks._client.backend._transport._server.db == 2


def test_a_database_in_the_code_overrides_the_url():
    with Locks("redis://h1/1", db=2) as locks:
        assert locks._client.backend._transport._server.db == 2


@pytest.mark.parametrize(
    "url",
    ["redis+sentinel://u:s3cret@h1,h2/m", "redis+cluster://u:s3cret@h1", "unix://u:s3cret@/s"],
)
def test_a_password_is_not_shown(url):
    with Locks(url) as locks:
        assert "s3cret" not in repr(locks) + locks.location
    assert "s3cret" not in repr(read(url))


def test_a_password_with_a_slash_is_not_taken_for_a_database():
    with pytest.raises(ConfigurationError, match="is written %2F") as refused:
        Locks("redis://:s3/cret@h1")

    assert "cret" not in str(refused.value)
