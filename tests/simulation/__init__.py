"""The shipped asyncio code in a simulated world: virtual time, a network, clocks, and a seed.

It models a store that decides by doors (`core/door.py`), not the scripts or statements of a real
store; those are tested on real servers. A seed repeats exactly.
"""
