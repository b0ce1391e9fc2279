"""The part of the shared SQL code that does I/O; the source of both flavours."""
