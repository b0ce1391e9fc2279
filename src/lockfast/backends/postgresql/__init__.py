"""PostgreSQL: rows changed in short transactions, and NOTIFY to wake waiters."""
