"""The `lockfast challenge` command: its options, its progress display and its summary."""
