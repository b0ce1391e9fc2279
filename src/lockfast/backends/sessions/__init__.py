"""What the stores with sessions share: the line of claims, what proves a session, and its life.

All claims of a client are carried by one session, and live as long as it does. A claim comes
into line and looks at it; whoever has to wait watches whoever has to go first. A store brings
its wire, which says this in its own language, and nothing else: `_async/wire.py` has all that a
wire must offer. It is handed to `_async/backend.py`, which has the verbs.
"""
