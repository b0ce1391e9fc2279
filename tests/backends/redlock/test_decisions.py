"""What the nodes' answers mean, and when a node counts again: values in, values out."""

from __future__ import annotations

import pytest

from holdfast.backends.redlock import answers, quarantine
from holdfast.backends.redlock.quarantine import Witness
from holdfast.model import Owner, Renewal

MAX_TTL = 10.0
LONG = MAX_TTL * 2


def admission(*others: Witness, own: float = LONG, nodes: int = 5):
    witnesses = {0: Witness(counts=False, known_for=own, ceiling=0)}
    witnesses |= dict(enumerate(others, 1))
    return quarantine.admission(0, witnesses, nodes=nodes, max_ttl=MAX_TTL)


def test_enough_of_those_who_remember_have_to_teach():
    teacher = Witness(counts=True, known_for=LONG, ceiling=7)

    assert admission(teacher, teacher) is None
    assert admission(teacher, teacher, teacher) == quarantine.Admission(0.0, 7)
    assert admission(teacher, nodes=3) is None
    assert admission(teacher, teacher, nodes=3) == quarantine.Admission(0.0, 7)


def test_one_that_forgot_too_teaches_nobody():
    teacher = Witness(counts=True, known_for=LONG, ceiling=7)
    forgetful = Witness(counts=False, known_for=LONG, ceiling=0)

    assert admission(teacher, teacher, forgetful) is None
    assert admission(teacher, teacher, forgetful, teacher) == quarantine.Admission(0.0, 7)


def test_no_single_clock_ends_it():
    early = Witness(counts=True, known_for=1.0, ceiling=7)
    jumped = Witness(counts=True, known_for=3600.0, ceiling=7)

    found = admission(early, early, early, jumped)

    assert found is not None
    assert 9.0 < found.left <= MAX_TTL
    assert admission(jumped, jumped, jumped, own=1.0) != quarantine.Admission(0.0, 7)


def test_where_a_majority_forgot_time_has_to_do():
    forgetful = Witness(counts=False, known_for=LONG, ceiling=0)

    assert admission(forgetful, forgetful) == quarantine.Admission(0.0, 0)
    assert admission(forgetful) is None


def test_half_of_an_even_number_is_no_majority_that_forgot():
    """What is left of each majority that gave a token is among those who count, in part."""
    teacher = Witness(counts=True, known_for=LONG, ceiling=7)
    forgetful = Witness(counts=False, known_for=LONG, ceiling=0)

    assert admission(teacher, forgetful, nodes=4) is None
    assert admission(teacher, teacher, forgetful, nodes=4) == quarantine.Admission(0.0, 7)
    assert admission(teacher, forgetful, forgetful, nodes=4) == quarantine.Admission(0.0, 7)


def test_it_is_taught_the_largest_of_all():
    taught = [Witness(counts=True, known_for=LONG, ceiling=one) for one in (3, 9, 5, 4)]

    assert admission(*taught) == quarantine.Admission(0.0, 9)


# -- what is seen of a name ------------------------------------------------------------------


def seen(claim: str, token: int = 5, shut: float = 0.0) -> answers.Seen:
    owner = Owner("host", 1).to_text()
    return answers.Seen(100.0, claim, owner, token, 90.0, 110.0 if claim else 0.0, shut)


FREE = seen("")


@pytest.mark.parametrize(
    ("found", "holders"),
    [
        ([seen("a")] * 3 + [FREE] * 2, 1),
        ([seen("a")] * 2 + [FREE] * 3, 0),
        ([seen("a")] * 2 + [FREE] * 2, 1),  # one was not heard
        ([seen("a")] * 2 + [seen("b")] * 2 + [FREE], 0),
        ([FREE] * 3, 0),
    ],
)
def test_somebody_holds_a_name_whom_a_majority_may_have(found, holders):
    told = answers.inspection("door", dict(enumerate(found)), nodes=5)

    assert len(told.holders) == holders


def test_the_token_is_what_most_of_them_say():
    found = [seen("a", token) for token in (5, 5, 5, 9)]

    [holder] = answers.inspection("door", dict(enumerate(found)), nodes=5).holders

    assert holder.token == 5


def test_a_name_is_closed_until_a_majority_has_opened():
    found = [seen("", shut=100.0 + one) for one in (1, 2, 3, 4, 5)]

    [closing] = answers.inspection("door", dict(enumerate(found)), nodes=5).closing

    assert closing.remaining == 3.0


def test_a_renewal_at_a_node_that_does_not_count_is_none():
    assert answers.renewed([1, 0, 1]) is Renewal.LOST
    assert answers.renewed([1, 0, 2]) is Renewal.BROKEN
    assert answers.renewed([1, 1, 1]) is Renewal.RENEWED
