"""The backend on the in-memory store: the source of both flavours."""
