"""etcd: claims under one lease per client, holds that outlive that lease, and hand-written gRPC."""
