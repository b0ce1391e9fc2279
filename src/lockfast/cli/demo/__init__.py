"""The demo: three stories about locks, each played by real processes."""
