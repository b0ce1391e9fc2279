"""The ZooKeeper backend: the source of both flavours."""
