"""A sequencer's text: it is read back whole, is about one hold, and no other text is accepted."""

from __future__ import annotations

from base64 import urlsafe_b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockfast import Claim, ConfigurationError, Grant, Holder, Inspection, Owner
from lockfast.core.lease_text import (
    SEQUENCER_FORMAT,
    Sequencer,
    hold_of,
    sequencer_from_text,
    sequencer_of,
)

CLAIM, ANOTHER = "0" * 32, "1" * 32
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=100)


def told(
    name: str = "door", *, token: int = 7, capacity: int = 1, party: str | None = None
) -> Sequencer:
    """Return a sequencer as another service reads it."""
    claim = Claim(CLAIM, name, "client", "owner", 1, capacity, 30.0, party)
    return sequencer_from_text(sequencer_of(Grant(claim, token, 30.0), token).to_text())


def seen(
    *holders: tuple[int, int], capacity: int = 1, claim: str = CLAIM, party: str | None = None
) -> Inspection:
    """Return a store's view of its holders, each given by its token and its weight."""
    owner, hold = Owner("host", 1), hold_of(claim, party=party)
    inside = tuple(Holder(owner, token, weight, 0.0, None, hold) for token, weight in holders)
    return Inspection("door", capacity, inside, ())


@given(name=NAMES, token=st.integers(1, 2**53 - 1))
def test_what_a_lease_says_is_read_back(name: str, token: int) -> None:
    text = told(name, token=token).to_text()

    found = sequencer_from_text(text + "\n")

    assert text.isascii()
    assert text.isprintable()
    assert (found.name, found.token, found.mode) == (name, token, "exclusive")


def test_it_names_no_claim() -> None:
    """A sequencer can be used only to check the lease: it cannot release or renew the lease."""
    body = told().to_text().removeprefix(SEQUENCER_FORMAT)

    assert CLAIM.encode() not in urlsafe_b64decode(body + "=" * (-len(body) % 4))


@given(text=st.text(max_size=80) | st.text(max_size=80).map(SEQUENCER_FORMAT.__add__))
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="not the text of a sequencer"):
        sequencer_from_text(text)


def test_what_is_no_text_is_a_wrong_type() -> None:
    with pytest.raises(TypeError, match="not NoneType"):
        sequencer_from_text(None)  # type: ignore[arg-type]


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
    assert told().is_current_in(seen(*holders)) is is_current


def test_the_hold_of_another_claim_is_not_current_by_the_same_token() -> None:
    """Another store, or another namespace, may have issued the same token for the same name."""
    assert not told().is_current_in(seen((7, 1), claim=ANOTHER))


def test_the_hold_of_an_explicit_owner_is_that_of_all_its_claims() -> None:
    """The hold goes on after the claim that made the sequencer has left."""
    found = told(party="saga")

    assert found.is_current_in(seen((7, 1), claim=ANOTHER, party="saga"))
    assert not found.is_current_in(seen((7, 1)))


def test_a_shared_hold_is_not_an_exclusive_one() -> None:
    shared = told(capacity=3)

    assert shared.mode == "shared"
    assert shared.is_current_in(seen((7, 1), capacity=3))
    assert not shared.is_current_in(seen((7, 3), capacity=3))
