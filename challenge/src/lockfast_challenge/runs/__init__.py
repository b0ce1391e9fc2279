"""One run of the challenge, and its archive."""
