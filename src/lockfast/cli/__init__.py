"""The command line: one file per command. Only here are click and rich imported."""
