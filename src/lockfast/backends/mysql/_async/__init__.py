"""The verbs on MySQL and MariaDB: the source of both flavours."""
