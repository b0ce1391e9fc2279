"""The scripts that run inside each node, one per file; each file begins with its contract."""
