"""The memcached backend: the source of both flavours."""
