"""Group commit on every SQL server: each operation gets its own reply, or an error."""

from __future__ import annotations

import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from going_together import FIRST, PATIENCE, claim, names

from lockfast import BackendUnavailable, OutcomeUnknown
from lockfast_challenge.processes import eventually


class TogetherLaws:
    """Needs the fixtures `subject` and `stage`; the stage can hold up and break the server.

    The fixture `standstill` keeps callers from giving up on the batch under way, because the number
    of statements is under test.
    """

    @pytest.mark.usefixtures("standstill")
    def test_those_who_come_meanwhile_go_in_one_commit(self, subject, stage) -> None:
        subject.know(*FIRST, *names(9))
        held = [claim(one) for one in names(9)]
        for one in held[:6]:
            subject.call("take", one)
        subject.asked.clear()
        with stage.locked_out():
            first = stage.busy(subject)
            freed = [subject.start("give_back", one) for one in held[:3]]
            kept = subject.start("renew", held[3:6])
            taken = [subject.start("take", one) for one in held[6:]]
            eventually(lambda: subject.number_waiting == 7)

        assert all(one.result(PATIENCE) is not None for one in first + taken)
        assert [one.result(PATIENCE) for one in freed] == [True] * 3
        assert kept.result(PATIENCE) == [True] * 3
        assert subject.together == 1

    @pytest.mark.usefixtures("standstill")
    def test_who_wants_a_name_that_is_in_the_batch_already_goes_with_the_next(
        self, subject, stage
    ) -> None:
        subject.know(*FIRST, *names(2))
        with stage.locked_out():
            stage.busy(subject)
            asked = [subject.start("take", claim(one)) for one in names(2) * 3]
            eventually(lambda: subject.number_waiting == 6)

        answers = [one.result(PATIENCE) for one in asked]

        assert [answer is not None for answer in answers].count(True) == 2
        assert subject.together >= 3

    def test_a_hundred_at_once_on_names_of_their_own_all_get_them(self, subject) -> None:
        # Enough threads that most wait for their turn, whatever the scheduler does.
        count = 100 if subject.flavour.name == "async" else 48
        subject.know(*names(count))

        def cycle(name: str) -> None:
            for _ in range(5):
                one = claim(name)
                assert subject.call("take", one) is not None
                assert subject.call("renew", [one]) == [True]
                assert subject.call("give_back", one)

        with ThreadPoolExecutor(count) as threads:
            list(threads.map(cycle, names(count)))

        assert subject.trips < 3 * 5 * count / 2

    def test_two_clients_never_hold_one_name_and_never_stand_in_each_others_way(
        self, stage
    ) -> None:
        subjects = [stage.another() for _ in range(2)]
        subjects[0].know(*names(6))
        before = stage.deadlocks()
        inside: Counter[str] = Counter()
        last: dict[str, int] = {}
        state = threading.Lock()

        def work(number: int) -> int:
            subject, dice, grants = subjects[number % 2], random.Random(number), 0  # noqa: S311
            for _ in range(30):
                one = claim(dice.choice(names(6)))
                token = subject.call("take", one)
                if token is None:
                    continue
                with state:
                    inside[one.name] += 1
                    assert inside[one.name] == 1
                    assert token > last.get(one.name, 0)
                    last[one.name] = token
                    inside[one.name] -= 1
                grants += 1
                while not subject.call("give_back", one):
                    pass  # another operation locked the row; the door would wait for it
            return grants

        with ThreadPoolExecutor(16) as threads:
            assert sum(threads.map(work, range(16))) > 0

        assert stage.deadlocks() == before
        for one in subjects:
            one.close()

    @pytest.mark.usefixtures("standstill")
    @pytest.mark.parametrize("name", ["n" * 512, "\x00'\"\\", "naïve 🔒", "a ", "{}", "%s"])
    def test_any_name_can_go_with_others(self, subject, stage, name) -> None:
        subject.know(name, "other")
        with stage.locked_out():
            stage.busy(subject)
            asked = [subject.start("take", claim(one)) for one in (name, "other")]
            eventually(lambda: subject.number_waiting == 2)

        assert None not in [one.result(PATIENCE) for one in asked]

    def test_a_name_that_somebody_has_locked_holds_up_nobody_else(self, subject, stage) -> None:
        """Other names are served, and later requests for the locked name do not wait."""
        subject.know("stuck", *names(10))
        with stage.locked("stuck"):
            stuck = subject.start("take", claim("stuck"))
            eventually(lambda: subject.asked)
            assert [subject.call("take", claim("stuck")) for _ in range(6)] == [None] * 6
            asked = [subject.start("take", claim(one)) for one in names(10)]
            assert None not in [one.result(PATIENCE) for one in asked]
            assert not stuck.done()

        assert stuck.result(PATIENCE) is not None

    @pytest.mark.usefixtures("standstill")
    def test_whose_time_is_up_in_the_queue_has_asked_nothing(self, subject, stage) -> None:
        subject.know(*FIRST, *names(2))
        with stage.locked_out():
            stage.busy(subject)
            hasty = subject.start("take", claim("name 0"), within=0.1)
            other = subject.start("take", claim("name 1"))
            with pytest.raises(BackendUnavailable, match="no time left"):
                hasty.result(PATIENCE)

        assert other.result(PATIENCE) is not None
        assert subject.call("take", claim("name 0")) is not None

    @pytest.mark.usefixtures("standstill")
    def test_whose_time_is_up_under_way_is_in_doubt_and_the_others_are_served(
        self, subject, stage
    ) -> None:
        subject.know(*FIRST, *names(4))
        with stage.locked_out():
            first = stage.busy(subject)
            hasty = subject.start("take", claim("name 0"), within=3.0)
            asked = [subject.start("take", claim(one)) for one in names(4)[1:]]
            eventually(lambda: subject.number_waiting == 4)
            # End one of the first batches; the operation that has waited longest then carries the
            # other operations.
            stage.end_first()
            eventually(lambda: subject.together)
            with pytest.raises(OutcomeUnknown, match="no answer in time"):
                hasty.result(PATIENCE)

        assert None not in [one.result(PATIENCE) for one in asked]
        for one in first:
            with pytest.raises(OutcomeUnknown):
                one.result(PATIENCE)

    @pytest.mark.usefixtures("standstill")
    def test_a_connection_that_is_lost_under_way_leaves_all_of_them_in_doubt(
        self, subject, stage
    ) -> None:
        subject.know(*FIRST, *names(5))
        with stage.locked_out():
            first = stage.busy(subject)
            asked = [subject.start("take", claim(one)) for one in names(5)]
            eventually(lambda: subject.number_waiting == 5)
            stage.end_first()
            eventually(lambda: subject.together)
            eventually(stage.end_batch)
            for one in [*first, *asked]:
                with pytest.raises(OutcomeUnknown):
                    one.result(PATIENCE)

        errors = [one.exception() for one in asked]
        assert len({id(one) for one in errors}) == 5
        assert subject.call("take", claim("name 0")) is not None

    @pytest.mark.usefixtures("standstill")
    def test_a_server_that_cannot_be_reached_has_done_nothing_for_anybody(
        self, subject, stage
    ) -> None:
        subject.know(*FIRST, *names(3))
        with stage.locked_out():
            stage.busy(subject)
            asked = [subject.start("take", claim(one)) for one in names(3)]
            eventually(lambda: subject.number_waiting == 3)
            pool = subject.transport.inner._pool
            real = pool._connect

            def refused(*_: Any) -> Any:
                raise BackendUnavailable("nothing listens there")

            pool._connect = refused
            stage.end_first()
            for one in asked:
                with pytest.raises(BackendUnavailable, match="nothing listens"):
                    one.result(PATIENCE)
            pool._connect = real

        assert subject.call("take", claim("name 0")) is not None
