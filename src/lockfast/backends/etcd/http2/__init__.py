"""HTTP/2 and gRPC as far as an etcd client needs them: bytes in, bytes out, no sockets."""
