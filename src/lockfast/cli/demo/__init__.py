"""The demo: four stories about locks, each played by real processes."""
