"""Names: any text, byte by byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockfast.core.naming import checked_name, name_for_call, name_of, storage_key
from lockfast.errors import ConfigurationError

text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200)
namespaces = st.from_regex(r"[A-Za-z0-9_.:-]{1,20}", fullmatch=True)


@given(name=text)
def test_a_name_is_taken_as_it_is_or_refused_for_its_length(name: str) -> None:
    if len(name.encode()) <= 512:
        assert checked_name(name) is name
    else:
        with pytest.raises(ConfigurationError, match="at most 512"):
            checked_name(name)


@given(one=st.tuples(namespaces, text), other=st.tuples(namespaces, text))
def test_no_two_names_share_a_key(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert (storage_key(*one) == storage_key(*other)) == (one == other)
    assert name_of(storage_key(*one)) == one[1]


def test_a_template_is_filled_from_the_call() -> None:
    def ship(order_id: int, *, region: str = "eu") -> None: ...

    name = name_for_call("order:{order_id}:{region}", ship)

    assert name(7) == "order:7:eu"
    assert name(order_id=8, region="us") == "order:8:us"


def test_a_template_that_names_no_argument_is_refused_at_once() -> None:
    def ship(order_id: int) -> None: ...

    with pytest.raises(ConfigurationError, match=r"invoice.*order_id"):
        name_for_call("order:{invoice}", ship)
