"""Statements on a connection of the caller's; the source of the sync flavour."""
