"""How a lease is released where SQLAlchemy calls: a hook of its own is never awaited."""
