"""Names that are not valid keys: none reaches the protocol as it is, and no two share a lock."""

from __future__ import annotations

import pytest

from lockfast import BackendUnavailable
from lockfast.backends.memcached.records import KEY_MAX_BYTES, key_of
from lockfast_challenge.processes import eventually

ODD = (
    "with space",
    "line\nbreak",
    "\r\nflush_all\r\n",
    " C1 T0\r\nx",
    "x" * 300,
    "x" * 512,
    "emoji 🔒",
    "🔒",
    "\x00",
    "ünïcode",
    "=",
    "#",
    "%20",
)


def surveyed(locks) -> list[str]:
    """Return the listed names; repeat while the server refuses because its crawler is running."""
    found: list[list[str]] = []
    eventually(
        lambda: not found.append([one.name for one in locks.survey()]),
        what="listed",
        despite=(BackendUnavailable,),
    )
    return found[0]


@pytest.mark.parametrize("name", ODD, ids=ascii)
def test_an_odd_name_is_a_lock_like_any_other(flavour, server, name):
    """An odd name can be taken, seen, listed unchanged, refused to others, and released."""
    keeper, other = flavour.locks(server.url), flavour.locks(server.url)
    kept = keeper.lock("kept").acquire()
    lease = keeper.lock(name).acquire()

    assert other.lock(name).try_acquire() is None
    assert [one.owner.pid for one in other.inspect(name).holders]
    assert set(surveyed(other)) == {"kept", name}

    lease.release()
    assert not other.inspect(name).holders
    kept.check()
    kept.release()


@pytest.mark.parametrize("name", ODD, ids=ascii)
def test_a_key_is_one_that_memcached_takes(name):
    """Every key is printable ASCII without a space, and not too long."""
    key = key_of("n" * 64, name)

    assert len(key) <= KEY_MAX_BYTES
    assert key.isascii()
    assert key.decode().isprintable()
    assert b" " not in key


def test_no_two_names_share_a_key():
    """A name that looks like another name's key still has a key of its own."""
    plain = [key_of("a", name) for name in (*ODD, "door", "a=door")]
    hashed = key_of("a", "with space").decode().partition("#")[2]
    names = [*plain, key_of("a", f"#{hashed}"), key_of("a", hashed), key_of("b", "door")]

    assert len(set(names)) == len(names)


def test_of_many_names_those_are_listed_that_are_held(flavour, server, namespace):
    """There are more names than one request asks for, and items of free names stay for a day."""
    locks = flavour.locks(server.url, namespace=namespace)
    for number in range(600):
        locks.lock(f"{number:03}").acquire().release()
    held = [locks.lock(f"{number:03}").acquire() for number in (0, 300, 599)]

    listed = surveyed(locks)

    assert listed == ["000", "300", "599"]
    assert all(one.is_trusted for one in held)


def test_a_list_tells_what_is_held_and_nothing_that_was_released(flavour, server, namespace):
    """The list has only held names of one namespace and prefix, and no keys of other programs."""
    locks = flavour.locks(server.url, namespace=namespace)
    server.say(b"ms foreign 1 T0\r\nx\r\n", f"ms {namespace}x=1 1 T0\r\nx\r\n".encode())
    flavour.locks(server.url, namespace=f"{namespace}2").lock("a1").acquire()
    for name in ("a1", "a2", "b1"):
        locks.lock(name).acquire()
    locks.lock("a3").acquire().release()

    eventually(
        lambda: [one.name for one in locks.survey("a")] == ["a1", "a2"],
        what="listed",
        despite=(BackendUnavailable,),
    )
