"""What the reaper guarantees on every SQL server; a store says how to reach its tables."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from lockfast.backends.sql._async.maintenance import REAP_EVERY_VERBS, AsyncNameReaper
from lockfast.backends.sql._sync.maintenance import NameReaper
from lockfast.core.naming import name_of, storage_key
from lockfast.model import Claim

DAY = 24 * 3600.0
ALL = (b"", b"\xff")


def claim(claim_id: str, name: str, **more: Any) -> Claim:
    return Claim(claim_id, name, "client", "{}", 1, 1, more.pop("ttl", 10.0), **more)


def sweeper_on(transport: Any, reaper: Any) -> Any:
    """Return a name reaper in the flavour of the transport."""
    kind = NameReaper if transport.flavour.name == "sync" else AsyncNameReaper
    return transport.flavour.call(kind, transport.inner, reaper)


class Names:
    """Names in the test's own tables, which a test uses, ages and reaps.

    `run` runs a statement. `key` is the key column as statements write it, and `mark` is the
    transport's placeholder for a value. `reaper` makes a reaper.
    """

    def __init__(
        self,
        transport: Any,
        statements: Any,
        *,
        run: Callable[..., Any],
        key: str,
        mark: str,
        reaper: Any,
    ) -> None:
        self.transport = transport
        self.statements = statements
        self.reaper = reaper
        self.tables = reaper.args[0]
        self.run = run
        self.key = key
        self.mark = mark
        self._name_reaper = sweeper_on(transport, reaper())

    def done(self, request: Any) -> int | None:
        """Run a request; return its token, or None if the request did nothing."""
        return self.statements.token_in(self.transport.run(request))

    def take(self, name: str, **options: Any) -> int:
        """Take a name and return its token."""
        token = self.done(self.statements.take_new(claim(name, name, **options)))
        assert token is not None
        return token

    def use(self, *names: str) -> None:
        """Take names and release them."""
        for name in names:
            self.take(name)
            assert self.done(self.statements.release(claim(name, name))) is not None

    def age(self, seconds: float) -> None:
        """Make all tokens and holds this many seconds older."""
        self.run(
            f"UPDATE {self.tables.door} SET last_token = last_token - {int(seconds * 1e6)},"
            f" token = token - {int(seconds * 1e6)}, since = since - {seconds},"
            f" until = CASE until WHEN 0 THEN 0 ELSE until - {seconds} END"
        )

    def old_one(self) -> int:
        """Make a name that may be reaped, and return its last token."""
        self.use("door")
        self.age(DAY + 60)
        [[token]] = self.run(f"SELECT last_token FROM {self.tables.door}")
        return int(token)

    def stands(self, name: str, claim_id: str, *, standing: int, until: float = 0.0) -> None:
        """Add a claim at the name, besides the claim in the name's record."""
        key = storage_key("test", name)
        self.run(
            f"INSERT INTO {self.tables.place}"
            f" SELECT %s, count(*) + 1, %s, 'client', '{{}}', NULL, 1, 10, 0, 0, %s, %s, 0, 0, ''"
            f" FROM {self.tables.place}",
            *(key, claim_id, standing, until),
        )
        self.run(f"UPDATE {self.tables.door} SET crowd = crowd + 1 WHERE {self.key} = %s", key)

    def reap(self) -> int:
        """Reap a few rows; return how many names were removed."""
        flavour = self.transport.flavour
        flavour.call(self._name_reaper.count, REAP_EVERY_VERBS)
        return int(flavour.call(self._name_reaper.reap, deadline=flavour.clock.now() + 20))

    def known(self) -> set[str]:
        """Return the names in the table."""
        rows = self.run(f"SELECT {self.key} FROM {self.tables.door}")
        return {name_of(bytes(key)) for (key,) in rows}

    def holders(self) -> list[str]:
        """Return the holder of each name."""
        return [one for (one,) in self.run(f"SELECT id FROM {self.tables.door}")]


class SweepingLaws:
    """Needs the fixtures `names`, and `elsewhere`, a transport to a server that is away."""

    def test_idle_names_go_after_a_day_and_not_before(self, names) -> None:
        names.use("old")
        names.age(DAY - 60)
        assert names.reap() == 0

        names.age(120)
        names.use("young")

        assert names.reap() == 1
        assert names.known() == {"young"}

    def test_the_next_token_of_a_swept_name_is_larger(self, names) -> None:
        last = names.old_one()
        assert names.reap() == 1

        assert names.take("door") > last

    def test_who_holds_or_waits_is_in_use_however_long(self, names) -> None:
        names.take("held", ttl=7 * DAY)
        names.take("closed afterwards", lock_delay=7 * DAY)
        names.take("held for long", min_hold=7 * DAY)
        names.use("with another inside")
        names.stands("with another inside", "holder", standing=0, until=time.time() + 7 * DAY)
        names.stands("with another inside", "waiter", standing=3)
        names.age(DAY + 3600)

        assert names.reap() == 0

    def test_a_holder_that_died_more_than_a_day_ago_is_not_in_use(self, names) -> None:
        names.take("left by the dead")
        names.age(DAY - 60)
        assert names.reap() == 0

        names.age(120)

        assert names.reap() == 1
        assert names.known() == set()

    def test_whom_death_left_in_line_goes_with_the_name(self, names) -> None:
        names.use("line", "idle")
        names.stands("line", "let in, and dead", standing=1, until=time.time() - DAY - 60)
        names.stands("line", "dead behind it", standing=3)
        names.stands("line", "buried", standing=4, until=time.time() - DAY - 60)
        names.age(DAY + 60)

        assert names.reap() == 2
        assert names.known() == set()
        [[left]] = names.run(f"SELECT count(*) FROM {names.tables.place}")
        assert left == 0

    def test_tokens_that_are_ahead_of_the_clock_are_not_forgotten(self, names) -> None:
        """After the clock was set back, tokens could repeat if the name were reaped."""
        names.use("door")
        names.age(-DAY)

        assert names.reap() == 0

    def test_it_is_done_a_few_at_a_time(self, names, monkeypatch) -> None:
        monkeypatch.setattr("lockfast.backends.sql.statements.REAP_ROWS", 4)
        names.use(*(f"name {i}" for i in range(10)))
        names.age(DAY + 60)

        assert [names.reap() for _ in range(4)] == [4, 4, 2, 0]

    def test_it_is_done_now_and_then(self, names) -> None:
        reaper = sweeper_on(names.transport, names.reaper())
        due = []

        for _ in range(REAP_EVERY_VERBS + 1):
            before = reaper._due
            reaper.count()
            due.append(reaper._due > before)

        assert due == [True, *[False] * (REAP_EVERY_VERBS - 1), True]

    def test_it_goes_on_behind_what_is_in_use(self, names, monkeypatch) -> None:
        monkeypatch.setattr("lockfast.backends.sql.statements.REAP_ROWS", 4)
        for i in range(10):
            names.take(f"held {i}", ttl=7 * DAY)
        names.use("idle")
        names.age(DAY + 60)

        assert sum(names.reap() for _ in range(4)) == 1
        assert len(names.known()) == 10

    def test_takers_and_brooms_at_once_lose_no_hold_and_no_token(self, names) -> None:
        """Concurrent use and reaping of very old names loses no hold and no token."""
        statements, done = names.statements, False

        def use(number: int) -> int:
            last, count = dict.fromkeys(("a", "b"), 0), 0
            for turn in range(60):
                for name in last:
                    mine = claim(f"{number}.{turn}", f"{number}.{name}")
                    token = names.done(statements.take(mine)) or names.done(
                        statements.take_new(mine)
                    )
                    assert token, "it is ours alone, and was given back"
                    assert token > last[name]
                    assert names.done(statements.release(mine)) is not None, "a hold was swept"
                    names.transport.ask(
                        f"UPDATE {names.tables.door} SET last_token = 0"
                        f" WHERE {names.key} = {names.mark} AND id = ''",
                        storage_key("test", mine.name),
                    )
                    last[name], count = token, count + 1
            return count

        def reap() -> int:
            gone, reaper = 0, names.reaper()
            while not done:
                reaped, between = reaper.reaped(names.transport.run(reaper.request()))
                gone += reaped
                if between is not None:
                    gone += names.transport.transact(partial(reaper.lines, between))
            return gone

        flavour = names.transport.flavour
        brooms = [flavour.start(reap) for _ in range(2)]
        users = [flavour.start(use, number) for number in range(2)]
        try:
            assert [one.result() for one in users] == [120, 120]
        finally:
            done = True
        assert sum(one.result() for one in brooms) > 0

    def test_a_store_that_is_away_does_no_harm(self, names, elsewhere) -> None:
        name_reaper = sweeper_on(elsewhere, names.reaper())
        flavour = elsewhere.flavour
        flavour.call(name_reaper.count)

        assert flavour.call(name_reaper.reap, deadline=flavour.clock.now() + 20) == 0
