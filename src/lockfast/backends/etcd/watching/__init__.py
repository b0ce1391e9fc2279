"""The stream on which a member tells what happens to keys: a hand-written pair."""
