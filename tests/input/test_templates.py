"""What `locked()` cannot do is refused when the function is decorated."""

from __future__ import annotations

import pytest
from refusal import refusal


def ship(order_id: int, *, carrier: str = "post") -> None:
    raise AssertionError((order_id, carrier))


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        ("order:{order}", "names order, but ship takes order_id, carrier"),
        ("order:{order_id}:{colour}", "names colour, but ship takes order_id, carrier"),
        ("order:{}", "names an unnamed field, but ship takes order_id, carrier"),
        ("order:{0}", "names 0, but ship takes order_id, carrier"),
        ("order:{order.id}", "names order.id, but ship takes order_id, carrier"),
        ("order:{order_id", "order:{order_id"),
    ],
    ids=["unknown", "one of two", "unnamed", "numbered", "attribute", "unbalanced"],
)
def test_a_template_that_the_call_cannot_fill_is_refused_at_once(store, template, sentence):
    """The refusal comes when the function is decorated, and not later, when an order is shipped."""
    told = refusal(lambda: store.locks.locked(template)(ship))

    assert sentence in told
    assert store.is_unchanged()


@pytest.mark.parametrize("choice", ["wiat", "", None, True])
def test_an_unknown_if_held_is_refused_listing_the_choices(store, choice):
    """The message lists the choices: wait, skip or raise."""
    told = refusal(lambda: store.locks.locked("door", if_held=choice))

    assert "wait, skip or raise is accepted" in told
    assert store.is_unchanged()


def test_a_call_with_wrong_arguments_takes_no_lock(store):
    """Python raises its own error first, and no name is requested."""
    decorated = store.locks.locked("order:{order_id}")(ship)

    assert "order_id" in refusal(decorated, TypeError)
    assert store.is_unchanged()
