"""One room per store: all that is known of a store stands in its folder.

Its verbs are in `_async/backend.py`, from which `_sync` is generated; what both flavours share
stands beside them, and `declaration.py` says which URLs and whose clients lead there. A store
knows the port (`lockfast._async.backend`), never the client.
"""
