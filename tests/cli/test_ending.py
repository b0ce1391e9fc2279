"""When a command is asked to stop, and when it must be dead."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lockfast.cli.run_supervision import after_loss, while_trusted
from lockfast.core.renewal import due_after, stop_margin_seconds, trusted_until

ttls = st.floats(0.05, 7 * 86400)
moments = st.floats(0, 1e7)


@given(now=moments, ttl=ttls, part=st.floats(0, 1))
def test_kill_falls_before_the_lease_ends_and_term_before_kill(now, ttl, part):
    until = now + part * ttl

    ending = while_trusted(now=now, remaining=until - now, ttl=ttl)

    assert ending.term_at < ending.kill_at < until


@given(now=moments, ttl=st.floats(0.1, 7 * 86400))
def test_a_lease_whose_next_renewal_is_due_disturbs_no_command(now, ttl):
    due = due_after(sent_at=now, ttl=ttl)
    remaining = trusted_until(sent_at=now, ttl=ttl) - due

    assert while_trusted(now=due, remaining=remaining, ttl=ttl).term_at > due


@given(now=moments, ttl=ttls, reason=st.sampled_from(["broken", "taken", "session_ended"]))
def test_a_lock_that_another_may_have_leaves_hardly_any_time(now, ttl, reason):
    healthy = while_trusted(now=now, remaining=ttl, ttl=ttl)

    ending = after_loss(healthy, now=now, reason=reason, ttl=ttl)

    assert ending.term_at <= now
    assert ending.kill_at <= now + stop_margin_seconds(ttl)


@given(now=moments, ttl=ttls)
def test_at_max_hold_the_command_has_what_is_left_of_the_lease(now, ttl):
    healthy = while_trusted(now=now, remaining=ttl, ttl=ttl)

    ending = after_loss(healthy, now=now, reason="max_hold", ttl=ttl)

    assert ending.term_at <= now
    assert ending.kill_at == healthy.kill_at
