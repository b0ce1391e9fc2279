"""The scripts that run inside each node, one per file, with its contract in the first comment."""
