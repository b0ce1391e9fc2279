"""One request to several nodes at once, and the replies so far. No I/O.

The caller stops listening as soon as the round is decided. Later replies are read and dropped, but
any byte from an overdue node shows that the node is back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.network.codec import Misread
from lockfast.backends.redis.resp import ErrorReply, Reply
from lockfast.backends.redlock.node import DeferredRequest
from lockfast.backends.redlock.replies import is_answer
from lockfast.core.quorum import NODE_TIMEOUT_SECONDS, NodeVote, majority
from lockfast.errors import BackendMisbehaved

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from lockfast.backends.redlock.node import Node
    from lockfast.backends.redlock.requests import NodeRequest, Scripts
    from lockfast.errors import LockError

FORGOTTEN_REPLY = [-1]
"""The reply of a node that was flushed and therefore does not know the birth in the request."""

GRACE_SECONDS = NODE_TIMEOUT_SECONDS
"""How long to wait for slower nodes once a majority, which is enough, has replied, in seconds."""

REPLY_TIMEOUT_SECONDS = 2.0
"""A connection on which replies are outstanding is given up after this many seconds without one."""


class Round:
    """The replies to one request; a node's entry in `replies` is None until the node replies."""

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
        """The replies of the nodes that carried out the request."""
        self.asked: list[bool] = [False] * len(nodes)
        self.asked_by: list[Scripts | None] = [None] * len(nodes)
        """The scripts that each node's request called, and so the birth that it was for."""
        self.error: Exception | None = None
        """The exception that prevented a decision. It is a bug of ours, and is raised to the
        caller."""
        self.is_decided: bool = False
        self.is_hurried: bool = False
        """Whether a majority is enough from now on, although more replies would be better."""
        self._decide = decide
        self._when_decided = when_decided

    def deliver(self, number: int, replies: list[Reply] | LockError) -> None:
        """Record all replies of a node, or the error in their place; drop late replies."""
        if not self.is_decided:
            self.put(number, replies)
            self.look()

    def put(self, number: int, replies: list[Reply] | LockError | None) -> None:
        """Record the replies of a node, which may be from another round for the same request."""
        self.replies[number] = replies
        if replies.__class__ is list and not _is_strange(replies):
            self.answers[number] = replies
        else:
            self.answers.pop(number, None)

    def look(self) -> None:
        """Check whether enough is known."""
        if not self.is_decided and self._is_enough():
            self.is_decided = True
            if self._when_decided is not None:
                self._when_decided()

    def _is_enough(self) -> bool:
        try:
            return self._decide(self)
        except Exception as error:  # noqa: BLE001 - `outcome` raises it
            # An error raised at this point would break the connection that brought the reply, and
            # no caller would see it.
            self.error = error
            return True

    def outcome(self) -> Round:
        """Return the round, or raise the error that prevented a decision."""
        if self.error is not None:
            raise self.error
        return self

    def hurry(self) -> None:
        """Settle for a majority from now on, although more replies would be better."""
        self.is_hurried = True
        self.look()

    def mark_overdue(self) -> None:
        """Mark the nodes that were asked but have not replied yet as overdue."""
        for node, reply, was_asked in zip(self.nodes, self.replies, self.asked, strict=True):
            if reply is None and was_asked:
                node.is_slow = True
        self.look()

    def end(self) -> None:
        """End the round because the time is up."""
        self.mark_overdue()
        self.is_decided = True
        if self._when_decided is not None:
            self._when_decided()

    def votes(self, read: Callable[[list[Reply]], NodeVote]) -> list[NodeVote]:
        """Return the vote of each node, as `read` finds it in the replies."""
        answers = self.answers
        return [
            read(answers[i])
            if i in answers
            else NodeVote.UNREACHABLE
            if self.replies[i] is not None
            else node.silence()
            for i, node in enumerate(self.nodes)
        ]

    def is_over(self) -> bool:
        """Return whether every node that was asked has replied."""
        return not any(
            reply is None and was_asked
            for reply, was_asked in zip(self.replies, self.asked, strict=True)
        )

    def is_heard(self, among: Collection[int] | None = None) -> bool:
        """Return whether all nodes that are not overdue have replied.

        Once the round is hurried, a majority is enough. With `among`, only the replies of those
        nodes matter, and once the round is hurried, no reply is needed.
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
        """Return each node's replies, even refusals; None if the node is silent or forgot us."""
        return [
            replies if isinstance(replies, list) and not any(map(_is_unknown, replies)) else None
            for replies in self.replies
        ]

    def strangers(self) -> list[Node]:
        """Return the nodes that did not know the birth in our request, and so need a handshake."""
        if len(self.answers) == len(self.nodes):
            return []
        return [
            node
            for node, replies in zip(self.nodes, self.replies, strict=True)
            if isinstance(replies, list) and any(map(_is_unknown, replies))
        ]


class NodeReply:
    """Collects the replies of one node; a connection uses it as a future.

    A request that must not be lost is kept for the node, even after the round has ended, unless a
    reply says that the node carried it out. Otherwise a release that was lost after its caller
    stopped waiting would leave the lock behind.
    """

    __slots__ = ("_asked", "_matters_until", "_node", "_replies", "_round")

    def __init__(
        self, of: Round, node: Node, asked: Sequence[NodeRequest], *, matters_until: float = 0.0
    ) -> None:
        self._round = of
        self._node = node
        self._asked = asked
        self._matters_until = matters_until
        self._replies: list[Reply] = []

    def done(self) -> bool:
        """Return False, so that late replies are delivered too and show that the node is there."""
        return False

    def set_result(self, reply: Reply) -> None:
        """Record a reply."""
        self._node.is_slow = False
        self._replies.append(reply)
        if len(self._replies) == len(self._asked):
            # The node may not know our scripts. If the round is not decided yet, its caller repeats
            # the handshake and then the request. If the round is decided, no caller does, so keep
            # the request.
            if self._round.is_decided and any(map(_is_unknown, self._replies)):
                self._keep()
            odd = self._odd()
            if odd is not None:
                self._keep()
            self._round.deliver(self._node.number, self._replies if odd is None else odd)
            if odd is not None:
                raise Misread(str(odd))  # the connection catches this, and is closed

    def _odd(self) -> BackendMisbehaved | None:
        """Return the error if none of our scripts can have returned these replies."""
        for asked, reply in zip(self._asked, self._replies, strict=True):
            if (
                reply.__class__ is ErrorReply
                or reply == FORGOTTEN_REPLY
                or is_answer(asked.verb, reply)
            ):
                continue
            return BackendMisbehaved(
                f"{self._node.where} answered to {asked.verb} what no script of ours does: "
                f"{repr(reply)[:60]}; is it a Redis server, and nothing in between that answers?"
            )
        return None

    def set_exception(self, error: LockError) -> None:
        """Record that no more replies will come; called once for each missing reply."""
        self._keep()
        if self._round.replies[self._node.number] is None:
            self._round.deliver(self._node.number, error)

    def _keep(self) -> None:
        until, self._matters_until = self._matters_until, 0.0
        if until:
            self._node.keep(DeferredRequest(one, until) for one in self._asked)


class DroppedReply:
    """Receives the reply to a deferred request, which no caller waits for."""

    __slots__ = ("_errand", "_node")

    def __init__(self, node: Node, deferred_request: DeferredRequest) -> None:
        self._node = node
        self._errand = deferred_request

    def done(self) -> bool:
        """Return False, as NodeReply does."""
        return False

    def set_result(self, reply: Reply) -> None:
        """Record that the node is there; keep the request if the node could not carry it out."""
        self._node.is_slow = False
        if _is_unknown(reply):
            self._node.keep([self._errand])

    def set_exception(self, _error: LockError) -> None:
        """Keep the request, to be sent again while it matters."""
        self._node.keep([self._errand])


def _is_strange(replies: Sequence[Reply]) -> bool:
    """Return true if the node did not carry out the request."""
    return any(one.__class__ is ErrorReply or one == FORGOTTEN_REPLY for one in replies)


def _is_unknown(reply: Reply) -> bool:
    return reply == FORGOTTEN_REPLY or (isinstance(reply, ErrorReply) and reply.code == "NOSCRIPT")
