"""The text of a lease that is handed over: it is read back whole, and no other text is accepted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockfast import Claim, ConfigurationError, Grant
from lockfast.core.lease_text import DETACHED_FORMAT, detached_from_text, detached_text

CLAIMS = st.builds(
    Claim,
    id=st.text("0123456789abcdef", min_size=32, max_size=32),
    name=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=100),
    client=st.just("theirs"),
    owner=st.just("them"),
    weight=st.integers(1, 1000),
    capacity=st.integers(1000, 2**31 - 1),
    ttl=st.floats(0.01, 604_800),
    party=st.none() | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=50),
    lock_delay=st.floats(0, 1000),
    min_hold=st.floats(0, 1000),
)


@given(claim=CLAIMS, token=st.none() | st.integers(1, 2**53 - 1))
def test_what_was_handed_over_is_read_back_as_ours(claim, token):
    text = detached_text(Grant(claim, token, claim.ttl))

    grant = detached_from_text(text, client="mine", owner="me")

    assert text.isascii()
    assert text.isprintable()
    assert (grant.token, grant.ttl) == (token, claim.ttl)
    assert (grant.claim.client, grant.claim.owner) == ("mine", "me")
    for field in ("id", "name", "weight", "capacity", "party", "lock_delay", "min_hold"):
        assert getattr(grant.claim, field) == getattr(claim, field)


REFUSED = "this is not the text of a lease: give it as `lease.detach()` returned it"


@given(text=st.text(max_size=80) | st.text(max_size=80).map(DETACHED_FORMAT.__add__))
def test_any_other_text_is_refused_with_a_sentence_that_does_not_show_it(text):
    with pytest.raises(ConfigurationError) as caught:
        detached_from_text(text, client="mine", owner="me")

    assert str(caught.value) == REFUSED


@pytest.mark.parametrize(
    "change", [{"ttl": float("nan")}, {"ttl": 1e9}, {"weight": 2}, {"name": ""}]
)
def test_a_text_that_says_what_no_lease_can_be_is_refused(change):
    """The text may have been altered on its way."""
    claim = replace(Claim("0" * 32, "door", "theirs", "them", 1, 1, 30.0), **change)

    with pytest.raises(ConfigurationError):
        detached_from_text(detached_text(Grant(claim, 7, 30.0)), client="mine", owner="me")


def test_a_line_break_at_the_end_of_a_text_is_no_mistake():
    """A file or a pipe adds a line break."""
    text = detached_text(Grant(Claim("0" * 32, "door", "theirs", "them", 1, 1, 30.0), 7, 30.0))

    assert detached_from_text(text + "\n", client="mine", owner="me").token == 7


def test_a_text_that_was_cut_off_is_refused():
    claim = Claim("0" * 32, "door", "theirs", "them", 1, 1, 30.0)
    text = detached_text(Grant(claim, 7, 30.0))

    for end in range(len(text)):
        with pytest.raises(ConfigurationError):
            detached_from_text(text[:end], client="mine", owner="me")
