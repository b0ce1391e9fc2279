"""Which silent clients the scripts pass over, and how those clients learn of it."""

from __future__ import annotations

from backends.redis.scripted import NAME, Scripted, claim

from lockfast.backends.redis import requests
from lockfast.core.door import ADMISSION_WINDOW_SECONDS
from lockfast.model import Grant, Held


def test_those_who_were_not_heard_for_long_are_passed_over(scripted: Scripted) -> None:
    """Clients that missed three heartbeats are passed over without an admission window each."""
    scripted.patience = 7_000_000
    scripted.arrive(claim(0, ttl=60.0))
    for n in range(1, 10):
        scripted.arrive(claim(n, client=f"dead{n}"))
    alive = claim(10, client="alive")
    scripted.arrive(alive)
    for _ in range(5):
        scripted.now += 2
        scripted.beat("alive")

    scripted.release(claim(0), tombstone=False)

    assert isinstance(scripted.arrive(alive), Grant)


def test_clients_that_fell_silent_together_cost_one_window(scripted: Scripted) -> None:
    """One window is enough for all dead clients: live clients send a heartbeat while it runs."""
    scripted.patience = 7_000_000
    scripted.arrive(claim(0, ttl=60.0))
    for n in range(1, 101):
        scripted.arrive(claim(n, client=f"dead{n}"))
    alive = claim(101, client="alive")
    scripted.arrive(alive)

    scripted.release(claim(0), tombstone=False)
    scripted.now += 2
    scripted.beat("alive")
    scripted.now += ADMISSION_WINDOW_SECONDS - 2
    while scripted.beat("alive").is_unsettled:
        pass

    assert isinstance(scripted.arrive(alive), Grant)


def test_who_was_heard_while_the_window_of_the_dead_ran_keeps_its_place(
    scripted: Scripted,
) -> None:
    """A window that ran out does not count against clients that sent a heartbeat meanwhile."""
    scripted.patience = 7_000_000
    scripted.arrive(claim(0, ttl=60.0))
    for n, client in enumerate(("dead", "first", "second"), 1):
        scripted.arrive(claim(n, client=client))
    scripted.now += 1
    scripted.release(claim(0), tombstone=False)
    scripted.now += 0.1
    for client in ("first", "second"):
        scripted.beat(client)
    scripted.now += ADMISSION_WINDOW_SECONDS

    scripted.beat("second")

    assert isinstance(scripted.arrive(claim(2, client="first")), Grant)
    assert scripted.arrive(claim(3, client="second")).place == 1


def test_who_was_passed_over_for_its_silence_is_told_though_others_of_its_client_wait(
    scripted: Scripted,
) -> None:
    """A client whose heartbeat was only late learns from its reply that its place was lost."""
    scripted.patience = 7_000_000
    scripted.arrive(claim(0, ttl=60.0))
    for n, client in enumerate(("dead", "late", "other", "other", "late"), 1):
        scripted.arrive(claim(n, client=client))
    epoch = scripted.beat("late").epoch
    scripted.release(claim(0), tombstone=False)
    scripted.now += 1
    scripted.beat("other")
    scripted.now += ADMISSION_WINDOW_SECONDS - 1
    scripted.beat("other")
    assert isinstance(scripted.arrive(claim(3, client="other")), Grant)

    assert scripted.beat("late").epoch != epoch

    assert scripted.arrive(claim(2, client="late")).place == 3
    assert scripted.arrive(claim(5, client="late")).place == 3


def test_a_window_that_ran_out_is_forgotten_with_the_line(scripted: Scripted) -> None:
    """The record that a window ran out is removed together with the line."""
    scripted.patience = 7_000_000
    scripted.arrive(claim(0, ttl=60.0))
    scripted.arrive(claim(1, client="dead"))
    scripted.arrive(claim(2, client="alive"))
    scripted.release(claim(0), tombstone=False)
    scripted.now += ADMISSION_WINDOW_SECONDS

    scripted.beat("alive")

    assert isinstance(scripted.arrive(claim(2, client="alive")), Grant)
    assert scripted.ask("HEXISTS", scripted.key("door"), "doubt") == 0


def test_a_late_request_does_not_divert_the_rings_of_its_client(scripted: Scripted) -> None:
    """A late request names an old inbox, but the client's newer inbox is kept."""
    scripted.arrive(claim(0, client="holder"))
    keys = scripted.keys.of(NAME)

    for n, inbox in ((1, "10.new"), (2, "9.old"), (3, "")):
        scripted.run("acquire", requests.acquire(keys, claim(n, client="me"), inbox))
    scripted.run("beat", requests.heartbeat([(keys, "me")], "9.old"))

    record = scripted.ask("HGET", scripted.key("door"), "@me")
    assert record.split()[-1] == b"10.new"


def test_a_waiter_that_asks_by_itself_keeps_its_place_however_long_it_was_silent(
    scripted: Scripted,
) -> None:
    """Silence costs a waiter its place only if its turn came while it was silent."""
    scripted.patience = 7_000_000
    scripted.arrive(claim(0, ttl=600.0))
    for n in (1, 2):
        scripted.arrive(claim(n, client=f"client{n}"))
    scripted.now += 60

    answer = scripted.arrive(claim(1, client="client1"))

    assert isinstance(answer, Held)
    assert answer.place == 1


def test_a_client_turned_away_learns_it_by_its_heartbeat(scripted: Scripted) -> None:
    """The heartbeat's reply shows a new epoch, so the client asks again and joins at the end."""
    scripted.arrive(claim(0))
    for n in (1, 2):
        scripted.arrive(claim(n, client="slow"))
    scripted.arrive(claim(3, client="other"))
    before = scripted.beat("slow").epoch
    scripted.release(claim(0), tombstone=False)
    scripted.now += ADMISSION_WINDOW_SECONDS

    after = scripted.beat("slow").epoch
    scripted.arrive(claim(3, client="other"))
    again = scripted.arrive(claim(2, client="slow"))

    assert after != before
    assert isinstance(again, Held)
    assert [one.token for one in again.holders] != []
