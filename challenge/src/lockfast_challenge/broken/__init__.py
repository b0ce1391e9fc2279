"""Locks as they are often written, each with one classic flaw, and correct ones as controls.

If a challenge does not find these flaws, then finding nothing elsewhere proves nothing. No lock
here sleeps, counts or has a hook to provoke its flaw; only events of a real deployment provoke it.
`registry.py` lists which schedule finds which flaw.
"""
