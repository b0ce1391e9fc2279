"""Patterns leave out what differs from name to name, and nothing else."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockfast.observe.patterns import ANYTHING, PATTERN_MAX_CHARACTERS, Patterns, pattern_of

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=512) | st.from_regex(
    r"[a-fxyz0-9@:/*._ -]{1,120}", fullmatch=True
)
words = st.from_regex(r"[g-zG-Z]{1,7}", fullmatch=True)
values = st.one_of(
    st.integers(min_value=0).map(str),
    st.uuids().map(str),
    st.uuids().map(lambda one: one.hex),
    st.dates().map(str),
    st.datetimes(max_value=None).map(lambda one: one.strftime("%Y%m%dT%H%M%SZ")),
    st.ip_addresses(v=4).map(str),
    st.binary(min_size=16, max_size=32).map(bytes.hex),
    st.emails(domains=st.just("example.com")).filter(lambda one: re.fullmatch(r"[\w.+@-]+", one)),
)


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("nightly-report", "nightly-report"),
        ("order:17", "order:*"),
        ("order-17", "order-*"),
        ("order_17_lock", "order_*_lock"),
        ("worker7", "worker*"),
        ("stock:3:17", "stock:*:*"),
        ("user:6f1f0b3e-8e0c-4b4e-abcd-fedcba987654:cart", "user:*:cart"),
        ("blob/DA39A3EE5E6B4B0D3255BFEF95601890AFD80709", "blob/*"),
        ("deploy:935b788", "deploy:*"),
        ("report:2026-11-17", "report:*"),
        ("report/2026-11-17T08:49:56Z/eu", "report/*:*:*/eu"),
        ("host:10.0.12.1", "host:*"),
        ("mail:alice@example.com", "mail:*"),
        ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "*"),
        ("bestellung:größe:٣", "bestellung:größe:*"),
        ("café", "café"),
        ("decade", "decade"),
        ("17", ANYTHING),
    ],
)
def test_values_become_stars(name: str, pattern: str) -> None:
    assert pattern_of(name) == pattern


@given(kind=words, value=values, rest=words)
def test_two_names_that_differ_by_a_value_have_one_pattern(kind, value, rest) -> None:
    assert pattern_of(f"{kind}:{value}:{rest}") == f"{kind}:*:{rest}"


@given(name=names)
def test_a_pattern_holds_no_digit_and_is_short(name: str) -> None:
    pattern = pattern_of(name)

    assert not re.search(r"\d", pattern)
    assert 0 < len(pattern) <= PATTERN_MAX_CHARACTERS


@given(name=names)
def test_a_pattern_is_its_own_pattern(name: str) -> None:
    assert pattern_of(pattern_of(name)) == pattern_of(name)


@given(name=st.from_regex(r"[g-z]{1,7}([:/_.-][g-z]{1,7}){0,5}", fullmatch=True))
def test_a_name_of_plain_words_is_its_own_pattern(name: str) -> None:
    assert pattern_of(name) == name


def test_a_long_pattern_is_cut_between_words() -> None:
    assert pattern_of("warehouse/" * 20) == "/".join(["warehouse"] * 8) + "…"
    assert pattern_of("x/" + "warehouse/" * 20) == "x/" + "warehouse/" * 7 + "…"


@given(many=st.lists(st.from_regex(r"[g-z]{1,9}", fullmatch=True), max_size=60))
def test_only_so_many_patterns_are_kept(many: list[str]) -> None:
    patterns = Patterns(most=20)

    first = [patterns.of(one) for one in many]

    assert len(set(first) | {ANYTHING}) <= 20
    assert [patterns.of(one) for one in many] == first
