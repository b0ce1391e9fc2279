"""The verbs on a session, and what keeps it alive; the sync flavour is generated from this."""
