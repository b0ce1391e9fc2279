"""HTTP/2 and gRPC as far as a client of etcd needs them: bytes in, bytes out, no sockets."""
