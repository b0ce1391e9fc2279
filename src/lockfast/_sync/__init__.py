# Generated from src/lockfast/_async/__init__.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""What acts: the client, its locks and leases, the watchdog, the backends.

Code between two awaits is atomic in asyncio and *not* in threads, and this tree is the
source of both. Shared state is touched only under `runtime.StateLock`.
"""
