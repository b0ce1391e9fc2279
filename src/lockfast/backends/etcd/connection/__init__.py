"""The way to one member of the cluster: a hand-written pair."""
