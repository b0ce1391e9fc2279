"""Reports the outcome of a run: figures, pictures, a page; pure functions."""
