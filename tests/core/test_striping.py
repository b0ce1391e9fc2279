"""Which stripe a key belongs to: the same in every process, on every machine, at any time."""

from __future__ import annotations

import enum
import subprocess
import sys
import uuid
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockfast import ConfigurationError
from lockfast.core.sharding import stripe_name, stripe_of

PLAIN = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(),
    st.integers(min_value=-(2**200), max_value=2**200),
    st.uuids(),
)
KEYS = st.one_of(PLAIN, st.lists(PLAIN).map(tuple))


def test_the_names_stay_what_they_are():
    """The names of stripes are a format: two versions of Lockfast must agree on them."""
    ids = uuid.UUID("12345678-1234-5678-1234-567812345678")

    names = [stripe_name("user", key, stripes=64) for key in ("bob", 17, b"\xff", ids, ("a", 1))]

    assert names == ["user#18/64", "user#52/64", "user#17/64", "user#29/64", "user#44/64"]


def test_another_process_says_the_same():
    """Python's own hashes differ between processes, so a stripe must not depend on them."""
    script = "from lockfast.core.sharding import stripe_of as s; print(s(('bob', 7), stripes=1000))"

    said = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)

    assert int(said.stdout) == stripe_of(("bob", 7), stripes=1000)


@given(KEYS, st.integers(1, 10_000))
def test_a_key_has_one_stripe_of_those_there_are(key, stripes):
    assert 0 <= stripe_of(key, stripes=stripes) < stripes
    assert stripe_of(key, stripes=stripes) == stripe_of(key, stripes=stripes)


@given(st.integers(min_value=-(2**200), max_value=2**200))
def test_a_number_and_its_digits_are_one_key(number):
    """An id comes as a number from a database and as text from a URL."""
    assert stripe_of(number, stripes=10_000) == stripe_of(str(number), stripes=10_000)


def test_a_word_of_an_enum_is_what_it_stands_for():
    """How Python formats an enum member differs between versions."""

    class Kind(enum.StrEnum):
        SMALL = "small"

    class Number(enum.IntEnum):
        SEVEN = 7

    assert stripe_of(Kind.SMALL, stripes=10_000) == stripe_of("small", stripes=10_000)
    assert stripe_of(Number.SEVEN, stripes=10_000) == stripe_of(7, stripes=10_000)


def test_the_parts_of_a_tuple_are_kept_apart():
    assert stripe_of(("ab", "c"), stripes=2**30) != stripe_of(("a", "bc"), stripes=2**30)


def test_keys_are_spread_over_all_stripes():
    counted = Counter(stripe_of(number, stripes=16) for number in range(16_000))

    assert len(counted) == 16
    assert max(counted.values()) < 1.2 * min(counted.values())


@pytest.mark.parametrize("key", [1.0, None, True, [1], {"a": 1}, object(), ("a", 2.5)])
def test_what_has_no_lasting_form_is_refused(key):
    with pytest.raises(TypeError, match="a str, an int, bytes, a UUID or a tuple of these, not"):
        stripe_of(key, stripes=64)


@pytest.mark.parametrize("key", ["\ud800", 2**512])
def test_what_cannot_be_written_down_is_refused(key):
    with pytest.raises(ConfigurationError, match="key"):
        stripe_of(key, stripes=64)
