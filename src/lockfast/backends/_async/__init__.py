"""The port: the methods that every store implements."""
