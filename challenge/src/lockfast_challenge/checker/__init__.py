"""Decides whether a lock can have produced a history; pure functions."""
