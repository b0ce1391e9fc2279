"""The wire to one server: a hand-written pair, for tasks and for threads."""
