"""The guards for a database or a Redis server; the source of the sync flavour."""
