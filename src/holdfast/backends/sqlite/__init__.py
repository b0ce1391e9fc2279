"""`sqlite://`: the embedded default. Blocking code that serves both flavours, on a worker."""
