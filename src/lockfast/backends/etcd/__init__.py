"""etcd: claims under one lease per client, and a key that outlives it; gRPC by hand."""
