"""ZooKeeper through kazoo: ephemeral nodes under one session, and what they mean.

kazoo connects, keeps the session and speaks the protocol; the lock recipe is ours.
"""
