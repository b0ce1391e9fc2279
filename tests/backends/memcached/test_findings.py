"""The doctor's findings on a real server: each finding appears only where it is due."""

from __future__ import annotations

import pytest

from lockfast.backends.memcached.address import address_of_url
from lockfast.backends.memcached.diagnostics import Facts, findings
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.memcached import MemcachedServer


def test_a_server_that_lost_nothing_is_well(finding):
    assert finding("evictions").level == "ok"
    assert finding("memory").level == "ok"
    assert "1." in finding("version").message


def test_it_says_what_no_setting_can_change(finding):
    """No setting can change that a cache forgets items and has no fencing tokens."""
    told = finding("promise")

    assert told.level == "note"
    assert "fencing tokens" in told.message


def test_it_says_how_late_a_name_may_be_free(finding):
    assert "two seconds" in finding("ttl").message


def test_evictions_are_told_by_slab_class(outliving, finding):
    server = outliving.enter_context(MemcachedServer("-m", "2"))
    with server.talk() as talk:
        for number in range(5000):
            talk.send(b"ms f%d 1000 T0 q\r\n%b\r\n" % (number, b"x" * 1000))
        talk(b"mn\r\n", ends=b"MN\r\n")

    told = finding("evictions", server.url)

    number = server.stat("evictions")
    assert told.level == "warning"
    assert f"{number} in class " in told.message
    assert "-m" in told.remedy


def test_memory_near_its_limit_is_told(outliving, finding):
    """Items of this size leave little of a memory page unused."""
    server = outliving.enter_context(MemcachedServer("-m", "8"))
    with server.talk() as talk:
        for number in range(16000):
            talk.send(b"ms f%06d 1100 T0 q\r\n%b\r\n" % (number, b"x" * 1100))
        talk(b"mn\r\n", ends=b"MN\r\n")

    used = int(server.stat("bytes")) / int(server.stat("limit_maxbytes"))
    told = finding("memory", server.url)

    assert used >= 0.9
    assert told.level == "warning"
    assert f"{used:.0%}" in told.message


@pytest.mark.parametrize(
    ("used", "level"), [(89, "ok"), (90, "warning"), (100, "warning")], ids="{}".format
)
def test_memory_is_near_its_limit_from_nine_tenths_on(used, level):
    address = address_of_url("memcached://h", where="memcached://h", options={})
    facts = Facts(address, 30.0, {"limit_maxbytes": "100", "bytes": str(used)}, {}, {})

    [told] = [one for one in findings(facts) if one.subject == "memory"]

    assert told.level == level


def test_a_server_that_evicts_nothing_is_told(outliving, finding):
    server = outliving.enter_context(MemcachedServer("-M"))

    told = finding("evictions", server.url)

    assert told.level == "warning"
    assert "-M" in told.message


def test_a_server_that_was_started_just_now_is_told(flavour, server):
    """A restarted server has forgotten every lock, though holders may trust theirs for a ttl."""
    young = flavour.locks(server.url, ttl=3600.0)
    [told] = [one for one in young.diagnose() if one.subject == "uptime"]
    assert told.level == "warning"

    grown = flavour.locks(server.url, ttl=0.05)
    eventually(
        lambda: [one.level for one in grown.diagnose() if one.subject == "uptime"] == ["ok"],
        what="it is older than the ttl",
    )


def test_no_password_on_loopback_is_a_note(finding):
    assert finding("authentication").level == "note"


def test_a_password_is_well(outliving, finding):
    server = outliving.enter_context(MemcachedServer(login="app:secret"))

    told = finding("authentication", server.url)

    assert told.level == "ok"
    assert "secret" not in told.message


def test_a_password_that_nobody_asks_for_is_told(server, finding):
    told = finding("authentication", server.url.replace("://", "://app:secret@"))

    assert told.level == "warning"
    assert "asks for none" in told.message
    assert "-Y" in told.remedy
    assert "secret" not in told.message


@pytest.mark.parametrize(
    ("listens", "level"),
    [
        ("", "warning"),
        ("NULL", "warning"),
        ("::", "warning"),
        ("8.8.8.8", "warning"),
        ("127.0.0.1,8.8.8.8:11211", "warning"),
        ("127.0.0.1", "note"),
        ("10.0.0.5", "note"),
        ("localhost", "note"),
        ("[::1]:11211", "note"),
        ("some-host", "warning"),
    ],
)
def test_an_address_is_public_unless_it_is_of_a_network_of_ones_own(listens, level):
    address = address_of_url("memcached://h", where="memcached://h", options={})

    [told] = [
        one
        for one in findings(Facts(address, 30.0, {}, {"inter": listens}, {}))
        if one.subject == "authentication"
    ]

    assert told.level == level
