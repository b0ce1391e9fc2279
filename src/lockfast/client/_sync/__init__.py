# Generated from src/lockfast/client/_async/__init__.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The parts that do I/O: the client, its locks and leases, the watchdog.

Code between two awaits is atomic in asyncio but *not* in threads, and this tree is the source of
both. Shared state is touched only under `runtime.StateLock`.
"""
