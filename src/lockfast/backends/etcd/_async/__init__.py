"""The verbs on etcd, and the way to its members: asyncio flavour."""
