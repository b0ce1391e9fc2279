"""MySQL and MariaDB: locks are rows changed in short transactions, and waiting claims poll."""
