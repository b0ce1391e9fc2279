"""Redis: one server, a master watched by Sentinels, or a cluster; one script per operation.

`resp` is the codec, `requests` writes the script calls and `replies` reads what the scripts return,
`errors` maps the server's errors to ours, and `routing` picks the cluster node for a request; both
flavours share them. `connection_aio` and `connection_threads` are a hand-written pair: one
multiplexed connection per event loop, one connection per calling thread.
"""
