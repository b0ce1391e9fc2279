"""Locks as they are often written, each with one classic flaw, and correct ones as controls.

If a challenge does not find these flaws, then finding nothing elsewhere proves nothing. No lock
here has a sleep, a counter or a hook to provoke its flaw; only events that happen in real
deployments provoke it.
`registry.py` lists which schedule finds which flaw.
"""
