"""The text of a sequencer: read back whole, about one store, and nothing else is taken for one."""

from __future__ import annotations

from base64 import urlsafe_b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Claim, ConfigurationError, Grant, Holder, Inspection, Owner
from holdfast.core.sequencing import FORMAT, from_text, to_text

STORE = "redis://host"
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=100)


def grant(name: str = "door", *, weight: int = 1, capacity: int = 1) -> Grant:
    return Grant(Claim("0" * 32, name, "client", "owner", weight, capacity, 30.0), 7, 30.0)


def seen(*holders: tuple[int, int], capacity: int = 1) -> Inspection:
    """What a store tells of holders, each by its token and its weight."""
    owner = Owner("host", 1)
    told = tuple(Holder(owner, token, weight, 0.0, None) for token, weight in holders)
    return Inspection("door", capacity, told, ())


@given(name=NAMES, token=st.integers(1, 2**53 - 1))
def test_what_a_lease_says_is_read_back(name: str, token: int) -> None:
    text = to_text(grant(name), token, store=STORE)

    found = from_text(text + "\n", store=STORE)

    assert text.isascii()
    assert text.isprintable()
    assert (found.name, found.token, found.mode) == (name, token, "exclusive")


def test_it_names_no_claim() -> None:
    """Whoever has it can ask, and nothing else: it is no key."""
    body = to_text(grant(), 7, store=STORE).removeprefix(FORMAT)

    assert b"0" * 32 not in urlsafe_b64decode(body + "=" * (-len(body) % 4))


@given(text=st.text(max_size=80) | st.text(max_size=80).map(FORMAT.__add__))
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="not the text of a sequencer"):
        from_text(text, store=STORE)


def test_one_of_another_store_is_refused_and_both_are_named() -> None:
    """Its token may be the same by chance."""
    text = to_text(grant(), 7, store="redis://other")

    with pytest.raises(ConfigurationError, match=r"redis://other.*redis://host.*same address"):
        from_text(text, store=STORE)


def test_what_is_no_text_is_a_wrong_type() -> None:
    with pytest.raises(TypeError, match="not NoneType"):
        from_text(None, store=STORE)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("holders", "is_current"),
    [
        ([], False),
        ([(7, 1)], True),
        ([(8, 1)], False),
        ([(6, 1)], False),
        ([(8, 1), (7, 1)], True),
    ],
)
def test_only_the_very_token_is_current(holders, is_current) -> None:
    found = from_text(to_text(grant(), 7, store=STORE), store=STORE)

    assert found.is_current_in(seen(*holders)) is is_current


def test_a_shared_hold_is_not_an_exclusive_one() -> None:
    shared = from_text(to_text(grant(capacity=3), 7, store=STORE), store=STORE)

    assert shared.mode == "shared"
    assert shared.is_current_in(seen((7, 1), capacity=3))
    assert not shared.is_current_in(seen((7, 3), capacity=3))
