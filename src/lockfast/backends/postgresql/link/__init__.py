"""One connection to a server: a hand-written pair, for tasks and for threads."""
