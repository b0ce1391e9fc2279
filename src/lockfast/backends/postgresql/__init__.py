"""PostgreSQL: rows that a short transaction changes, and NOTIFY to wake who waits."""
