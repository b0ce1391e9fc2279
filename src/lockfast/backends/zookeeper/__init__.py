"""ZooKeeper by way of kazoo: ephemeral nodes under one session, and what they mean.

kazoo connects, keeps the session and speaks the protocol; the recipe is ours. `aio` and
`threads` are a hand-written pair: where an answer is awaited is all in which they differ.
"""
