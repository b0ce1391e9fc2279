"""The connection: a hand-written pair, for tasks and for threads."""
