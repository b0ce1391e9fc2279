"""Names that cannot be locked: a clear message, and nothing is changed."""

from __future__ import annotations

import warnings

import pytest
from refusal import refusal

from lockfast import AsyncLocks, ConfigurationError, Locks

BAD_NAMES = [
    pytest.param("", ConfigurationError, "must not be empty", id="empty"),
    pytest.param("x" * 513, ConfigurationError, "513 bytes of UTF-8; at most 512", id="long"),
    pytest.param("é" * 257, ConfigurationError, "514 bytes of UTF-8; at most 512", id="long UTF-8"),
    pytest.param("a\ud800", ConfigurationError, "lone surrogate", id="surrogate"),
    pytest.param(None, TypeError, "is a str, not NoneType", id="None"),
    pytest.param(7, TypeError, "is a str, not int", id="int"),
    pytest.param(b"door", TypeError, "is a str, not bytes", id="bytes"),
]


ENTRANCES = {
    "lock": lambda locks, name: locks.lock(name),
    "rwlock": lambda locks, name: locks.rwlock(name),
    "semaphore": lambda locks, name: locks.semaphore(name, capacity=2),
    "all": lambda locks, name: locks.all("fine", name),
    "inspect": lambda locks, name: locks.inspect(name),
    "break_": lambda locks, name: locks.break_(name),
    "locked": lambda locks, name: locks.locked(lambda: name)(lambda: None)(),
}


MAKERS = {
    "lock": lambda locks, name: locks.lock(name),
    "rwlock": lambda locks, name: locks.rwlock(name).read(),
    "semaphore": lambda locks, name: locks.semaphore(name, capacity=2),
    "all": lambda locks, name: locks.all(name),
    "striped": lambda locks, name: locks.striped(name, "key"),
    "sharded": lambda locks, name: locks.sharded(name, shards=3),
}


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize(("name", "kind", "sentence"), BAD_NAMES)
def test_a_bad_name_is_refused_wherever_it_enters(store, entrance, name, kind, sentence):
    """Law 12: names that are empty, too long, not encodable as UTF-8 or not strings are refused."""
    told = refusal(lambda: ENTRANCES[entrance](store.locks, name), kind)

    assert sentence in told
    assert store.is_unchanged()


@pytest.mark.parametrize("name", ["x" * 512, "é" * 256, "🔒" * 128, " ", "\0", "a\nb"])
def test_the_longest_and_the_oddest_names_are_accepted(store, name):
    """A name may have exactly 512 bytes; blanks and control characters are ordinary characters."""
    with store.locks.lock(name) as lease:
        assert lease.name == name


@pytest.mark.parametrize(
    ("prefix", "kind"), [(7, TypeError), (None, TypeError), ("a\ud800", ConfigurationError)]
)
def test_a_bad_prefix_is_refused_in_a_sentence(store, prefix, kind):
    """A survey uses the prefix of a name, so the same rules apply."""
    told = refusal(lambda: list(store.locks.survey(prefix)), kind)

    assert "str" in told or "surrogate" in told
    assert store.is_unchanged()


@pytest.mark.parametrize("namespace", ["", "a b", "ä", "x" * 65, "a/b", "a\0b"])
def test_a_bad_namespace_is_refused(store, namespace):
    """The namespace becomes part of keys, so it is kept plain."""
    told = refusal(lambda: Locks(store.url, namespace=namespace))

    assert "1 to 64 letters, digits or any of _ . : - are accepted" in told
    assert store.is_unchanged()


@pytest.mark.parametrize(
    ("names", "sentence"),
    [((), "at least one name"), (("a", "b", "a"), "each name once")],
    ids=["none", "twice"],
)
def test_all_of_nothing_or_of_one_name_twice_is_refused(store, names, sentence):
    """Nobody can intend to acquire no name at all, or one name twice."""
    assert sentence in refusal(lambda: store.locks.all(*names))
    assert store.is_unchanged()


def of_names(warned: pytest.WarningsRecorder) -> list[warnings.WarningMessage]:
    """Return the warnings about names; objects dropped by other tests may warn at the same time."""
    return [one for one in warned if one.category is RuntimeWarning]


@pytest.mark.parametrize("flavour", [Locks, AsyncLocks])
@pytest.mark.parametrize("name", ["order:{order_id}", "order:{order.id!r:>4}", "{rows[0]}!"])
@pytest.mark.parametrize("entrance", ["lock", "rwlock", "semaphore", "all", "striped", "sharded"])
def test_a_field_that_nothing_fills_in_is_warned_about_once(flavour, name, entrance):
    """Without the `f` prefix, all orders share one lock, and everything seems to work."""
    locks = flavour("memory://")

    with pytest.warns(RuntimeWarning, match=r"not filled in here.*write f\"") as warned:
        [MAKERS[entrance](locks, name) for _ in range(3)]

    assert [one.filename for one in of_names(warned)] == [__file__]


@pytest.mark.parametrize(
    "name", ["order:17", "{17}", "{door}", "{}", "a{b", '{"id": 1}', "{user 1}", "set:{a,b}"]
)
def test_braces_around_anything_else_are_no_reason_to_warn(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Locks("memory://").lock(name)


def test_a_hash_tag_is_warned_about_once_for_all_its_values():
    locks = Locks("memory://")

    with pytest.warns(RuntimeWarning, match="not filled in here") as warned:
        [locks.lock(f"{{user{number}}}:cart") for number in range(50)]

    assert len(of_names(warned)) == 1


@pytest.mark.filterwarnings("error")
def test_what_locked_fills_in_is_not_warned_about():
    locks = Locks("memory://")

    @locks.locked("order:{order_id}")
    def ship(order_id: int) -> int:
        return order_id

    assert ship(17) == 17
