"""A few connections to one server, made when needed: a hand-written pair."""
