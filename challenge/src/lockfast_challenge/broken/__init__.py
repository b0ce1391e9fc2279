"""Locks as they are often written, each with one classic flaw, and correct locks as controls.

If a challenge does not find these flaws, then a challenge of any other lock that finds nothing
proves nothing. No lock here has a sleep, a counter or a hook to provoke its flaw; only events that
happen in real deployments provoke the flaws. `registry.py` lists which schedule finds which flaw.
"""
