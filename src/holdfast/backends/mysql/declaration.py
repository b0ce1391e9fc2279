"""The URLs of MySQL and MariaDB, which are one store: the statements are those that both know."""

from __future__ import annotations

from holdfast.core.declaring import Declaration, Mode

DECLARATION = Declaration(
    backend="MysqlBackend",
    schemes={
        "mysql": "mysql://user:password@host:3306/database",
        "mariadb": "mariadb://user:password@host:3306/database",
    },
    extra="mysql",
    modes={
        "table": Mode(module="backend", backend="MysqlBackend"),
        "advisory": Mode(module="advisory", backend="MysqlAdvisoryBackend"),
    },
)
