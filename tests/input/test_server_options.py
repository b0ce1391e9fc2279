"""The options of a server are a closed list; other libraries' names are understood."""

from __future__ import annotations

import pytest
from refusal import refusal

from lockfast import Locks

URLS = {
    "redis": "redis://host:6379/0",
    "unix": "unix:///run/redis.sock",
    "sentinel": "redis+sentinel://h1,h2/mymaster",
    "cluster": "redis+cluster://h1,h2",
    "redlock": "redlock://h1,h2,h3",
    "etcd": "etcd://h1,h2",
    "memcached": "memcached://host",
}


@pytest.fixture(params=URLS)
def url(request) -> str:
    return URLS[request.param]


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [("tls_verfy", "tls_verify"), ("tls_cert_key", "tls_cert"), ("pasword", "password")],
)
def test_an_option_that_is_misspelt_is_refused_with_the_right_one(url, misspelt, meant):
    """If it were ignored, a connection would be less protected than its URL says."""
    for open_it in (lambda: Locks(f"{url}?{misspelt}=x"), lambda: Locks(url, **{misspelt: "x"})):
        told = refusal(open_it)

        assert f"unknown option {misspelt}" in told
        assert f"did you mean {meant}" in told


@pytest.mark.parametrize(
    "option", ["decode_responses", "socket_timeout", "health_check_interval", "ssl_ocsp_stapled"]
)
def test_an_option_of_a_driver_is_not_passed_on(url, option):
    """Our own connections have none of a driver's options."""
    assert f"unknown option {option}" in refusal(lambda: Locks(f"{url}?{option}=1"))


def test_only_our_own_names_are_listed(url):
    told = refusal(lambda: Locks(url, nonsense="x"))

    listed = told.partition("accepted: ")[2].split(", ")
    assert {"tls", "tls_ca", "tls_verify", "username", "password"} <= set(listed)
    assert not [one for one in listed if one.startswith("ssl") or one == "user"]


@pytest.mark.parametrize(
    ("url", "alias"),
    [
        ("rediss://host", "ssl_check_hostname=false"),
        ("rediss+cluster://host", "ssl_cert_reqs=none"),
        ("redlocks://h1,h2,h3", "ssl_cert_reqs=CERT_REQUIRED"),
        ("etcds://host", "ssl_check_hostname=false"),
        ("memcached://host", "ssl=true"),
        ("memcached://host", "user=me&password=x"),
    ],
)
def test_names_of_other_libraries_are_accepted(url, alias):
    with Locks(f"{url}?{alias}") as locks:
        assert "x" not in locks.location.partition("?")[2]
