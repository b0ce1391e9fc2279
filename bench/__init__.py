"""Benchmarks that compare Lockfast with the alternatives, side by side and as ratios."""
