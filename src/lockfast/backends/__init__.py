"""One package per store, with everything that is specific to that store.

The backend class is in `_async/backend.py`, from which `_sync` is generated. Code that both
flavours share is in the package itself, and `descriptor.py` declares which URLs and which client
objects select the store. A store depends on the port (`lockfast.backends._async.backend`), never on
the client.
"""
