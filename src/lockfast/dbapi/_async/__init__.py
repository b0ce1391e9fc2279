"""Runs statements on the caller's connection; the source of the sync flavour."""
