"""One question to several nodes at once, and what has been answered by now; no I/O.

Whoever asks stops listening as soon as enough is known. What comes later is read and dropped, but
any byte from a node that was overdue says that it is there again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.redis.resp import Refusal, Reply
from lockfast.backends.redlock.answers import is_answer
from lockfast.backends.redlock.node import Errand
from lockfast.backends.wires.parsing import Misread
from lockfast.core.quorum import NODE_TIMEOUT, Standing, majority
from lockfast.errors import BackendMisbehaved

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from lockfast.backends.redlock.node import Node
    from lockfast.backends.redlock.requests import Question, Scripts
    from lockfast.errors import LockError

FORGOTTEN = [-1]
"""What a node answers that was flushed: it does not know the birth by which it was asked."""

GRACE = NODE_TIMEOUT
"""Those who are slower than this are not waited for where a majority will do."""

PATIENCE = 2.0
"""A connection on which nothing was answered for so long is given up."""


class Round:
    """What each node has said; `replies` of a node is None until it has."""

    __slots__ = (
        "_decide",
        "_when_decided",
        "answers",
        "asked",
        "asked_by",
        "error",
        "is_decided",
        "is_hurried",
        "nodes",
        "replies",
    )

    def __init__(
        self,
        nodes: Sequence[Node],
        decide: Callable[[Round], bool],
        when_decided: Callable[[], None] | None = None,
    ) -> None:
        self.nodes: Sequence[Node] = nodes
        self.replies: list[list[Reply] | LockError | None] = [None] * len(nodes)
        self.answers: dict[int, list[Reply]] = {}
        """The replies of those nodes that did what they were asked."""
        self.asked: list[bool] = [False] * len(nodes)
        self.asked_by: list[Scripts | None] = [None] * len(nodes)
        """Of which birth the scripts were that each was asked for."""
        self.error: Exception | None = None
        """Why it could not be decided: a defect of ours, which whoever asks has to hear of."""
        self.is_decided: bool = False
        self.is_hurried: bool = False
        """Whether those who have not answered by now need not be waited for."""
        self._decide = decide
        self._when_decided = when_decided

    def hear(self, number: int, replies: list[Reply] | LockError) -> None:
        """Take what a node replied to everything, or why it did not; what comes late is dropped."""
        if not self.is_decided:
            self.put(number, replies)
            self.look()

    def put(self, number: int, replies: list[Reply] | LockError | None) -> None:
        """Know what a node replied, in this round or in another that belongs to it."""
        self.replies[number] = replies
        if replies.__class__ is list and not _is_strange(replies):
            self.answers[number] = replies
        else:
            self.answers.pop(number, None)

    def look(self) -> None:
        """See whether enough is known."""
        if not self.is_decided and self._is_enough():
            self.is_decided = True
            if self._when_decided is not None:
                self._when_decided()

    def _is_enough(self) -> bool:
        try:
            return self._decide(self)
        except Exception as error:  # noqa: BLE001 - it is raised where the outcome is asked for
            # Here it would break the connection on which an answer came, and nobody would hear it.
            self.error = error
            return True

    def outcome(self) -> Round:
        """Return itself, or raise why it could not be decided."""
        if self.error is not None:
            raise self.error
        return self

    def hurry(self) -> None:
        """Know that a majority will do, where it would be better to hear all."""
        self.is_hurried = True
        self.look()

    def remark(self) -> None:
        """Know that who was asked and has not answered by now is overdue."""
        for node, reply, was_asked in zip(self.nodes, self.replies, self.asked, strict=True):
            if reply is None and was_asked:
                node.is_slow = True
        self.look()

    def end(self) -> None:
        """Know that the time is up."""
        self.remark()
        self.is_decided = True
        if self._when_decided is not None:
            self._when_decided()

    def standings(self, read: Callable[[list[Reply]], Standing]) -> list[Standing]:
        """Return how each node stands, by what its replies mean."""
        answers = self.answers
        return [
            read(answers[i])
            if i in answers
            else Standing.UNREACHABLE
            if self.replies[i] is not None
            else node.silence()
            for i, node in enumerate(self.nodes)
        ]

    def is_over(self) -> bool:
        """Whether everybody who was asked has answered."""
        return not any(
            reply is None and was_asked
            for reply, was_asked in zip(self.replies, self.asked, strict=True)
        )

    def is_heard(self, among: Collection[int] | None = None) -> bool:
        """Whether all have answered, but for those that are overdue; soon a majority will do.

        Where only some of the nodes are meant, each of them.
        """
        if self.is_hurried and (
            among is not None or len(self.answers) >= majority(len(self.nodes))
        ):
            return True
        return all(
            self.replies[i] is not None or self.nodes[i].is_slow
            for i in (range(len(self.nodes)) if among is None else among)
        )

    def each_reply(self) -> list[list[Reply] | None]:
        """Return what each node replied, refusals too; None of one that did not, or forgot us."""
        return [
            replies if isinstance(replies, list) and not any(map(_is_unknown, replies)) else None
            for replies in self.replies
        ]

    def strangers(self) -> list[Node]:
        """Return the nodes that do not know us by the birth we know: they have to be greeted."""
        if len(self.answers) == len(self.nodes):
            return []
        return [
            node
            for node, replies in zip(self.nodes, self.replies, strict=True)
            if isinstance(replies, list) and any(map(_is_unknown, replies))
        ]


class Answer:
    """Takes the replies of one node, one by one; to a connection it is a future.

    What must not be lost is kept for the node where no answer says that it was done, also when
    the round is over: a release that nobody waits for any more would leave the lock behind.
    """

    __slots__ = ("_asked", "_node", "_owed_until", "_replies", "_round")

    def __init__(
        self, of: Round, node: Node, asked: Sequence[Question], *, owed_until: float = 0.0
    ) -> None:
        self._round = of
        self._node = node
        self._asked = asked
        self._owed_until = owed_until
        self._replies: list[Reply] = []

    def done(self) -> bool:
        """Whether nobody waits for it: never, each byte is news of its node."""
        return False

    def set_result(self, reply: Reply) -> None:
        """Take a reply."""
        self._node.is_slow = False
        self._replies.append(reply)
        if len(self._replies) == len(self._asked):
            # In a round that goes on, a node that knows no script of ours is greeted and told anew.
            if self._round.is_decided and any(map(_is_unknown, self._replies)):
                self._keep()
            odd = self._odd()
            if odd is not None:
                self._keep()
            self._round.hear(self._node.number, self._replies if odd is None else odd)
            if odd is not None:
                raise Misread(str(odd))  # to the connection, which is closed then

    def _odd(self) -> BackendMisbehaved | None:
        """Return what is wrong with the replies, if no script of ours can have answered them."""
        for asked, reply in zip(self._asked, self._replies, strict=True):
            if reply.__class__ is Refusal or reply == FORGOTTEN or is_answer(asked.verb, reply):
                continue
            return BackendMisbehaved(
                f"{self._node.where} answered to {asked.verb} what no script of ours does: "
                f"{repr(reply)[:60]}; is it a Redis server, and nothing in between that answers?"
            )
        return None

    def set_exception(self, error: LockError) -> None:
        """Take it that no reply comes any more; said once for each that is missing."""
        self._keep()
        if self._round.replies[self._node.number] is None:
            self._round.hear(self._node.number, error)

    def _keep(self) -> None:
        until, self._owed_until = self._owed_until, 0.0
        if until:
            self._node.keep(Errand(one, until) for one in self._asked)


class Dropped:
    """In place of an answer that nobody needs: an errand's."""

    __slots__ = ("_errand", "_node")

    def __init__(self, node: Node, errand: Errand) -> None:
        self._node = node
        self._errand = errand

    def done(self) -> bool:
        """Whether nobody waits for it: see Answer."""
        return False

    def set_result(self, reply: Reply) -> None:
        """Know that the node is there, and whether it could do it."""
        self._node.is_slow = False
        if _is_unknown(reply):
            self._node.keep([self._errand])

    def set_exception(self, _error: LockError) -> None:
        """Let it be told again, as long as it matters."""
        self._node.keep([self._errand])


def _is_strange(replies: Sequence[Reply]) -> bool:
    """Whether the node did not do what it was asked."""
    return any(one.__class__ is Refusal or one == FORGOTTEN for one in replies)


def _is_unknown(reply: Reply) -> bool:
    return reply == FORGOTTEN or (isinstance(reply, Refusal) and reply.code == "NOSCRIPT")
