# Generated from src/lockfast/backends/mysql/_async/__init__.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The MySQL and MariaDB backend, written once as the source of both flavours."""
