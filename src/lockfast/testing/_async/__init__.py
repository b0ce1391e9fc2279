"""The contract and its tools, asyncio flavour: the source."""
