"""When to leave the node that a subscription is at; pure.

Messages reach every node over the cluster's bus. A node that was removed, or is cut off from
its peers, hears none of them and answers all the same. But it refuses whatever belongs to a
slot, so that is what it is asked, now and then, on the very connection that listens.
"""

from __future__ import annotations

from lockfast.backends.redis.resp import Refusal, Reply, packed

ASK_EVERY = 1.0
PATIENCE = 2.0
"""A node that has not answered by then is gone."""


def question(channel: bytes) -> bytes:
    """Return what a node of a working cluster answers, or says who would.

    The name of the channel serves as a key: it is one that our user may ask for.
    """
    return packed(b"EXISTS", channel)


def is_deaf(answer: Reply) -> bool:
    """Whether the node says that it belongs to no working cluster."""
    return isinstance(answer, Refusal) and answer.code == "CLUSTERDOWN"
