"""Memory of one process: doors in a dict; the reference, and what applications test with."""
