"""Redlock: a majority of N independent Redis nodes, all asked at once.

`core/quorum.py` decides what the replies mean. The `scripts` run on each node, `requests` writes
the script calls, and `replies` reads the replies. `node` has the handshake, which reads a node's
birth, an id that shows whether the node may have forgotten something. `nodes_aio` and
`nodes_threads` are a hand-written pair that asks all nodes at once.
"""
