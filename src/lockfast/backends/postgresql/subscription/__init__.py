"""What hears the notifications of a server: a hand-written pair."""
