"""The guards that ask a database or a Redis server; the source of the sync flavour."""
