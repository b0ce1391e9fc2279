"""The asyncio source of the store; the sync twin is generated from it."""
