"""The URLs of etcd."""

from __future__ import annotations

from lockfast.core.descriptor import StoreDescriptor

DESCRIPTOR = StoreDescriptor(
    backend="EtcdBackend",
    schemes={
        "etcd": "etcd://host1,host2,host3/prefix",
        "etcds": "etcds://host1,host2,host3/prefix",
    },
)
