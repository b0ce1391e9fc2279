"""Measurements against what a user would pick instead: side by side, as ratios."""
