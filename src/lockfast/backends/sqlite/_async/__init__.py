"""The verbs on the SQLite file: the source of both flavours."""
