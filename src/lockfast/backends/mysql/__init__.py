"""MySQL and MariaDB: rows that a short transaction changes; the head of a line polls."""
