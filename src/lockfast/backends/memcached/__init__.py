"""memcached over its meta protocol: one item per name, changed only by compare-and-swap."""
