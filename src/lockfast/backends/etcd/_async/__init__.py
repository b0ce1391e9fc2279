"""The etcd backend and its transport to the cluster's members: asyncio flavour."""
