"""Clients that are killed, frozen or forked, or whose clock is wrong."""

from __future__ import annotations

import time

import pytest

from lockfast import LeaseLost, StaleToken
from lockfast.core.door import ADMISSION_WINDOW_SECONDS
from lockfast_challenge.processes import eventually


class ClientFaults:
    """Client faults, for every store whose server's clock ends leases; `door` is in that store."""

    slack = 1.5
    """How late an event may be noticed on a busy machine, in seconds; less than one poll interval.
    """

    def test_a_killed_holder_frees_the_name_within_its_ttl(self, flavour, door, puppet):
        """Law 9: the next in line runs when the ttl is over, with a larger token."""
        holder = puppet(flavour.name, door.url, ttl=0.8)
        token = holder.ask("acquire", door.name)
        waiter = door.wait_behind()
        door.until([token], 1)
        renewals = holder.ask("renewals")
        # without the kill, the holder would hold for ever
        eventually(lambda: holder.ask("renewals") > renewals)

        holder.kill()
        killed_at = flavour.clock.now()
        successor = waiter.result(20)

        assert flavour.clock.now() - killed_at < 0.8 + self.slack
        assert door.line() == ([successor.token], 0)

    def test_a_frozen_holder_is_told_before_its_next_call_returns(
        self, flavour, door, puppet, guarded
    ):
        """Laws 7 and 9: the next in line runs after the ttl, and the late write is rejected."""
        holder = puppet(flavour.name, door.url, ttl=0.5)
        token = holder.ask("acquire", door.name)
        guarded.write(door.name, token)

        holder.freeze()
        successor = door.elsewhere().acquire(timeout=10)
        guarded.write(door.name, successor.token)
        holder.thaw()

        with pytest.raises(LeaseLost) as told:
            holder.ask("check", door.name)
        assert told.value.reason == "expired"
        with pytest.raises(LeaseLost):
            holder.ask("release", door.name)
        with pytest.raises(StaleToken):
            guarded.write(door.name, token)
        assert door.line() == ([successor.token], 0)

    def test_ten_waiters_killed_together_cost_one_window(self, flavour, door, puppet):
        """Law 10: the line does not wait for each dead waiter; here, all ten are of one client."""
        lease = door.elsewhere().acquire()
        crowd = puppet(flavour.name, door.url)
        crowd.ask("let_many_wait", door.name, 10)
        door.until([lease.token], 10)
        waiter = door.wait_behind()
        door.until([lease.token], 11)
        crowd.kill()

        released_at = flavour.clock.now()
        lease.release()

        assert waiter.result(20).token > lease.token
        assert flavour.clock.now() - released_at < ADMISSION_WINDOW_SECONDS + self.slack

    def test_a_forked_child_holds_nothing_and_its_parent_loses_nothing(self, flavour, door, puppet):
        """The child uses its own connections, closes and dies, but takes no reply of the parent."""
        parent = puppet(flavour.name, door.url, ttl=6)
        token = parent.ask("acquire", door.name)
        children = [parent.fork(), parent.fork()]
        with pytest.raises(LeaseLost) as told:
            children[0].ask("check", door.name)
        for number, child in enumerate(children):
            child.ask("acquire", f"{door.name} {number}", timeout=5)

        children[0].ask("close")
        children[1].kill()
        before = parent.ask("renewals")
        eventually(lambda: parent.ask("renewals") >= before + 2)

        assert told.value.reason == "forked"
        parent.ask("check", door.name)
        assert door.line() == ([token], 0)
        parent.ask("release", door.name)
        assert door.line() == ([], 0)

    @pytest.mark.parametrize("step", [-86400.0, 86400.0], ids=["back", "forward"])
    def test_a_step_of_the_clients_clock_changes_nothing(self, door, diary, monkeypatch, step):
        """No client's wall clock enters a statement: leases and tokens use the server's."""
        locks = door.locks(ttl=6, on_event=diary)
        first = locks.lock(door.name).acquire()
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + step)

        before = diary.count("Renewed")
        eventually(lambda: diary.count("Renewed") >= before + 2)
        first.release()
        second = door.elsewhere().acquire(timeout=20)

        assert diary.count("Lost") == 0
        assert first.token < second.token < first.token + 30_000_000
