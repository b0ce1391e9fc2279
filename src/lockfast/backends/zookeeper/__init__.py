"""ZooKeeper through kazoo: ephemeral nodes under one session, and what they mean.

kazoo connects, keeps the session and speaks the protocol; the recipe is ours. `connection_aio` and
`connection_threads` are a hand-written pair that differs only in how they wait for a reply.
"""
