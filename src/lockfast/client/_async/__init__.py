"""The parts that do I/O: the client, its locks and leases, the watchdog.

Code between two awaits is atomic in asyncio but *not* in threads, and this tree is the source of
both. Shared state is touched only under `runtime.StateLock`.
"""
