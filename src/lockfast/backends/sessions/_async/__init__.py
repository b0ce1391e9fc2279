"""The backend with sessions, and their keep-alive; the sync flavour is generated from this."""
