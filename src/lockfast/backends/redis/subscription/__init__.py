"""What hears the messages of a server that come unasked: a hand-written pair."""
