"""The SQLite backend, written once as the source of both flavours."""
