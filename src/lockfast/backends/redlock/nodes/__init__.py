"""How all nodes are asked at once, and not one after the other: a hand-written pair."""
