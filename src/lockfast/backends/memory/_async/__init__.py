"""The verbs on the dict: the source of both flavours."""
