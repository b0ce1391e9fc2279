"""memcached by its meta protocol: an item per name, changed by compare-and-swap alone."""
