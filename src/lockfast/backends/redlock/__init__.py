"""Redlock: a majority of N independent Redis nodes, all asked at once.

`core/quorum.py` decides what their answers mean; `scripts` run on each node, `requests` writes and
`answers` reads what they are asked. `greeting` gets to know a node, whose birth tells whether it
may have forgotten something. `nodes` is a hand-written pair: how all of them are asked at once.
"""
