"""What remains of an error when it is sent to another process."""

from __future__ import annotations

import pickle

import pytest

from lockfast import errors
from lockfast.errors import AcquireTimeout, LeaseLost, LockError, StaleToken


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_can_be_made_from_its_message_alone(name):
    """Some serializers, such as Celery's default, keep only the message."""
    kind = getattr(errors, name)

    made = kind("'door' is held by vm pid 7")

    assert isinstance(made, LockError)
    assert str(made) == "'door' is held by vm pid 7"
    assert made.args == (str(made),)
    assert made.name is None


@pytest.mark.parametrize(
    "error",
    [
        AcquireTimeout("'door' is held", name="door", waited=1.5, place=2),
        LeaseLost(name="door", token=7, reason="broken", hint="somebody did"),
        StaleToken("too late", name="door", token=7, seen=9),
    ],
    ids=lambda one: type(one).__name__,
)
def test_an_error_is_made_again_from_what_it_was_given(error):
    """An error can be made again from its args, the message, and by pickle, with all its fields."""
    again = type(error)(*error.args)
    copied = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own

    assert str(again) == str(copied) == str(error)
    assert vars(copied) == vars(error)
    assert vars(again).keys() == vars(error).keys()
