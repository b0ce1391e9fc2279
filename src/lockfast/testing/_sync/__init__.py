# Generated from src/lockfast/testing/_async/__init__.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The contract for backends and its tools; the source of both flavours."""
