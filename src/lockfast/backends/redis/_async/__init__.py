"""The Redis backend: the source of both flavours."""
