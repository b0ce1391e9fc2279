"""Redlock: a majority of N independent Redis nodes, all asked at once.

`core/quorum.py` decides what their replies mean; `scripts` run on each node, `requests` writes the
requests to them and `replies` reads the replies. `node` has the handshake, which learns the birth
of a node: an id that shows whether the node may have forgotten something. `nodes_aio` and
`nodes_threads` are a hand-written pair that asks all nodes at once.
"""
