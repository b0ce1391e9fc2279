# Generated from src/lockfast/backends/sessions/_async/__init__.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The backend with sessions, and the keep-alive of sessions; the source of both flavours."""
