"""Measurements against the alternatives a user has: side by side, as ratios."""
