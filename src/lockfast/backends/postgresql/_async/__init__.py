"""The verbs on PostgreSQL: the source of both flavours."""
