"""The MySQL and MariaDB backend, written once as the source of both flavours."""
