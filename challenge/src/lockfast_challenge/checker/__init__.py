"""Decides whether a correct lock could have produced a history; pure functions."""
