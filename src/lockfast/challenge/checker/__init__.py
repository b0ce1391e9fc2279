"""Whether a history can have been a lock; values in, values out."""
