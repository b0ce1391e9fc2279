"""What acts: the client, its locks and leases, the watchdog, the backends.

Code between two awaits is atomic in asyncio and *not* in threads, and this tree is the
source of both. Shared state is touched only under `runtime.StateLock`.
"""
