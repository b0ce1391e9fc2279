"""A store in the memory of one process: the reference backend, also useful in application tests."""
