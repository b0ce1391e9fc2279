"""The part of the shared SQL code that does I/O, written once as the source of both flavours."""
