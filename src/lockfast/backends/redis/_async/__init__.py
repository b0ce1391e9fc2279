"""The verbs on Redis: the source of both flavours."""
