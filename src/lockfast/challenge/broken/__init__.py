"""Locks as they are often written, each with one classic flaw, and right ones beside them.

A challenge that does not find what is wrong with these says nothing by finding nothing elsewhere.
No lock here sleeps, counts or is hooked to let its fault come true; only what goes by in a real
deployment does that. `registry.py` says which schedule finds which.
"""
