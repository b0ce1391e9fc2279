"""One connection to the server: a hand-written pair, for tasks and for threads."""
