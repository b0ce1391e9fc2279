"""SQLite: the embedded default; rows in a file, and blocking code on a worker for both flavours."""
