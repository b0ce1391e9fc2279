"""Running steps on the connection: in a transaction, which rings those it woke, or to look."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from lockfast.backends.sql.steps import Ask

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.backends.sql.steps import Rows, Steps
    from lockfast.backends.sql.verbs import Decided
    from lockfast.backends.sqlite.connection import Connection
    from lockfast.backends.sqlite.doorbell import Doorbell
    from lockfast.runtime.afterwards import Afterwards

T = TypeVar("T")


class Driver:
    """Of one client's connection; its calls come one at a time, as those do."""

    def __init__(self, connection: Connection, bell: Doorbell, afterwards: Afterwards) -> None:
        self._connection = connection
        self._bell = bell
        self._afterwards = afterwards

    def transact(self, steps: Steps[Decided[T]], deadline: float) -> T:
        """Do the steps in a transaction, then ring those whom they have woken."""
        rings: list[str] = []

        def work() -> T:
            decided = self._run(steps)
            rings.extend(place.bell for place in decided.woken)
            return decided.answer

        try:
            answer = self._connection.transact(work, deadline)
        finally:
            # After the commit: whoever is rung must find its place. Also after an interrupt,
            # when nobody knows whether there was one: a ring for nothing does no harm.
            self._bell.ring(rings)
            self._afterwards.do()
        return answer

    def look(self, steps: Callable[[], Steps[T]], deadline: float) -> T:
        """Do steps that write nothing, without a transaction; anew while others lock the file."""
        return self._connection.patiently(lambda: self._run(steps()), deadline)

    def _run(self, steps: Steps[T]) -> T:
        connection = self._connection
        answers: list[Rows] | None = None
        while True:
            try:
                asked = steps.send(answers)  # type: ignore[arg-type]  # None begins them
            except StopIteration as end:
                answer: T = end.value
                return answer
            answers = []
            for one in asked:
                if isinstance(one, Ask):
                    answers.append(connection.execute(one.statement, one.values).fetchall())
                else:
                    connection.execute_many(one.statement, one.rows)
                    answers.append(())
