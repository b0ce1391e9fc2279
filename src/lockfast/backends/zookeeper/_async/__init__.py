"""The verbs on ZooKeeper: the source of both flavours."""
