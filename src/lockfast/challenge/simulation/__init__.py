"""The shipped asyncio shell in a world of its own: virtual time, a network, clocks, and a seed.

What it models is a store that decides by doors (`core/door.py`), not the script or statement by
which a real one does; those are for real servers. A seed repeats exactly.
"""
