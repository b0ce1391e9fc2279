"""Works on rows of the caller's own tables; the source of the sync flavour."""
