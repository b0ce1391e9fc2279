"""SQLite, the embedded default: locks are rows in a file.

Both flavours use the file through blocking code on a worker.
"""
