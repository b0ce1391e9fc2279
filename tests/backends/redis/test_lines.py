"""When a client sends heartbeats for the names that it waits for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lockfast.backends.redis.wait_schedule import (
    HEARTBEAT_SECONDS,
    HEARTBEAT_TOGETHER_SECONDS,
    HeartbeatSchedule,
    WaitingClaim,
)
from lockfast.model import FOREVER, Claim


def waiting(number: int, name: str, *, epoch: int = 1) -> WaitingClaim:
    claim = Claim(
        id=f"{number:032x}", name=name, client="me", owner="{}", weight=1, capacity=1, ttl=30.0
    )
    return WaitingClaim(claim, epoch, last_token=0, asked_at=0.0)


def filled(names: int, *, each: int = 1) -> HeartbeatSchedule:
    lines = HeartbeatSchedule()
    for number in range(names * each):
        lines.stands(waiting(number, f"door {number % names}"), now=0.0, ends_at=FOREVER)
    return lines


def test_every_name_is_spoken_of_once_in_a_beat_however_many_there_are():
    """Heartbeats cover each name once, in batches, however many claims wait for the name."""
    lines = filled(1000, each=3)

    rounds = []
    while lines.due_at() <= HEARTBEAT_SECONDS:
        rounds.append([line.name for line in lines.take_due(HEARTBEAT_SECONDS, most=128)])

    spoken = [name for each in rounds for name in each]
    assert len(spoken) == len(set(spoken)) == 1000
    assert max(map(len, rounds)) == 128
    assert lines.due_at() == 2 * HEARTBEAT_SECONDS


def test_an_answer_concerns_the_claims_on_its_name_alone():
    """The reply about a name reports lost places only for claims on that name."""
    lines = filled(2, each=2)
    [line] = lines.take_due(HEARTBEAT_SECONDS, most=1)

    lost = lines.learn(line, ends_at=FOREVER, epoch=2)

    assert sorted(lost) == sorted(lines.of_name(line.name))
    assert len(lost) == 2


def test_a_name_whose_holder_ends_soon_is_spoken_of_then_and_not_before():
    """A heartbeat for the end of a hold is not sent early along with other heartbeats."""
    lines = HeartbeatSchedule()
    lines.stands(waiting(0, "usual"), now=0.0, ends_at=FOREVER)
    lines.stands(
        waiting(1, "ends"),
        now=HEARTBEAT_TOGETHER_SECONDS,
        ends_at=HEARTBEAT_SECONDS + HEARTBEAT_TOGETHER_SECONDS / 2,
    )

    early = [line.name for line in lines.take_due(HEARTBEAT_SECONDS, most=10)]
    late = [
        line.name
        for line in lines.take_due(HEARTBEAT_SECONDS + HEARTBEAT_TOGETHER_SECONDS / 2, most=10)
    ]

    assert (early, late) == (["usual"], ["ends"])


def test_what_is_due_a_little_later_goes_along():
    """Heartbeats that are due shortly after one another are sent together."""
    lines = HeartbeatSchedule()
    for number in range(10):
        moment = number * HEARTBEAT_TOGETHER_SECONDS / 20
        lines.stands(waiting(number, f"door {number}"), now=moment, ends_at=FOREVER)

    assert len(lines.take_due(HEARTBEAT_SECONDS, most=100)) == 10


def test_nobody_is_spoken_of_who_no_longer_waits():
    """A name gets no more heartbeats once its last claim has left."""
    lines = filled(2)

    lines.forget(waiting(0, "door 0").claim.id)
    lines.forget("unknown")

    assert [line.name for line in lines.take_due(HEARTBEAT_SECONDS, most=10)] == ["door 1"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["stands", "forget", "beat"]), st.integers(0, 20), st.floats(0, 3)
        ),
        max_size=60,
    )
)
def test_whoever_waits_is_spoken_of_within_a_beat(steps):
    """While claims wait, the next heartbeat is due within one heartbeat interval."""
    lines, now = HeartbeatSchedule(), 0.0
    for what, number, passed in steps:
        now += min(passed, max(0.0, lines.due_at() - now))
        if what == "stands":
            lines.stands(waiting(number, f"door {number % 5}"), now=now, ends_at=now + passed)
        elif what == "forget":
            lines.forget(waiting(number, "").claim.id)
        for line in lines.take_due(now, most=3):
            lines.learn(line, ends_at=FOREVER, epoch=1)

    if lines.waiting:
        assert lines.due_at() <= now + HEARTBEAT_SECONDS
    else:
        assert lines.due_at() == FOREVER
