"""Clients leave a member that is cut off from all others, although it still answers them."""

from __future__ import annotations

from lockfast_challenge.processes import eventually

LONG = 15.0
"""A ttl in seconds. At least a third of it is always left, which outlasts an election."""


def test_who_asked_a_member_that_has_lost_its_leader_goes_on_at_another(scenes, cuttable):
    """The holder is renewed, and the waiter learns of the release because its watch moved, too."""
    alone = cuttable.followers()[0]
    for one in scenes:
        one.hold(cuttable.url_from(alone), ttl=LONG)
        one.wait_behind(cuttable.url_from(alone), ttl=LONG)

    cuttable.cut_off(alone, silently=True)
    eventually(lambda: not int(alone.state().get("leader", 0)), what="it has lost its leader")
    for one in scenes:
        one.diary.until_renewed()

    assert all(one.is_passed_on() for one in scenes)
