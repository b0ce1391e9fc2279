"""The asyncio source of the backend; the sync flavour is generated from it."""
