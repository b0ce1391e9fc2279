"""The verbs on memcached: the source of both flavours."""
