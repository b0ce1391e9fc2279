"""ZooKeeper through kazoo: ephemeral nodes under one session, and what they mean.

kazoo connects, keeps the session and speaks the protocol; the lock recipe is ours. `connection_aio`
and `connection_threads` are a hand-written pair; the two differ only in how they wait for a reply.
"""
