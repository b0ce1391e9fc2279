"""Shared by the stores with sessions: the line of claims, the proof of a session, its lifecycle.

All claims of a client belong to one session, and live as long as it does. A claim joins the line
and reads it. If the claim has to wait, it watches the entries that have to leave before it is
admitted. A store provides only its transport, which implements `AsyncSessionTransport` in
`_async/transport.py` in the store's own protocol. The backend in `_async/backend.py` uses that
transport to implement the port.
"""
