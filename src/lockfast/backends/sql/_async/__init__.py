"""What SQL stores share that waits: see each module."""
