"""The decisions of Lockfast, made from values alone: no clock, socket, thread or randomness."""
