"""What runs inside each node: one verb per file, its contract in the first comment."""
