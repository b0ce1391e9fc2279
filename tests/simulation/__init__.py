"""The shipped asyncio code in a simulated world: virtual time, a network, clocks, and a seed.

The simulation models a store that decides by doors (`core/door.py`), not the scripts or statements
of a real store, which are tested on real servers. A seed repeats exactly.
"""
