# Generated from src/lockfast/backends/sql/_async/__init__.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The part of the shared SQL code that does I/O; the source of both flavours."""
