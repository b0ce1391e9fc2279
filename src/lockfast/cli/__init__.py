"""The command line: one file per command. Only this package imports click and rich."""
