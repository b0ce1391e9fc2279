"""The SQLite backend: the source of both flavours."""
