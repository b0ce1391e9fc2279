"""The life of a hold: which state follows which, and what each state allows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockfast.core.renewal import (
    ENTRUSTED,
    GIVEN_UP,
    HELD,
    LOST,
    NEXT_STATES,
    OVER,
    RELEASING,
    SENT,
    HoldState,
)

wishes = st.lists(st.sampled_from(HoldState), max_size=12)


def life(wished: list[HoldState]) -> list[HoldState]:
    """Return the states of a hold that is asked to enter the wished states in turn."""
    states = [HELD]
    for then in wished:
        if then in NEXT_STATES[states[-1]]:
            states.append(then)
    return states


@pytest.mark.parametrize("state", HoldState)
def test_every_life_comes_to_its_end(state: HoldState) -> None:
    """A hold can end from every state, so nothing of it is kept for ever."""
    assert (OVER in NEXT_STATES[state]) == (state is not OVER)


@given(wished=wishes)
def test_nothing_leads_out_of_the_end(wished: list[HoldState]) -> None:
    assert OVER not in life(wished)[:-1]


@given(wished=wishes)
def test_whoever_may_not_act_any_more_never_may_again(wished: list[HoldState]) -> None:
    assert HELD not in life(wished)[1:]


@given(wished=wishes)
def test_what_was_lost_is_never_called_a_clean_release(wished: list[HoldState]) -> None:
    states = life(wished)
    lost_at = states.index(LOST) if LOST in states else len(states)

    assert not set(SENT) & set(states[lost_at:])


@given(wished=wishes)
def test_what_the_background_was_told_to_release_is_not_lost(wished: list[HoldState]) -> None:
    """The release was sent while the hold was trusted, and no later reply turns it into a loss."""
    states = life(wished)
    entrusted_at = states.index(ENTRUSTED) if ENTRUSTED in states else len(states)

    assert set(states[entrusted_at:]) <= {ENTRUSTED, OVER}
    assert set(states[entrusted_at:]) <= set(GIVEN_UP)


@given(wished=wishes)
def test_the_state_says_what_three_flags_and_a_reason_would(wished: list[HoldState]) -> None:
    """The model has flags that are only ever set, except that a loss clears an earlier release."""
    was_sent = was_lost = is_over = False
    states = life(wished)
    for state in states[1:]:
        was_lost |= state is LOST
        was_sent = (was_sent or state in (RELEASING, ENTRUSTED)) and not was_lost
        is_over |= state is OVER

    last = states[-1]
    assert (last is HELD) == (not was_sent and not was_lost and not is_over)
    assert (last in SENT) == (was_sent and not is_over)
    assert (last in GIVEN_UP) == (was_sent or is_over)
    assert (last is LOST) == (was_lost and not is_over)
