"""What the doctor asks a server about itself, by what every user may read."""

from __future__ import annotations

# Those of our own session. Of what it pins against transactions that stand still, the default is
# what others have.
SETTINGS = """
SELECT name, CASE name WHEN 'idle_in_transaction_session_timeout' THEN reset_val ELSE setting END
FROM pg_settings WHERE name IN (
    'server_encoding', 'fsync', 'synchronous_commit', 'synchronous_standby_names',
    'transaction_isolation', 'default_transaction_read_only', 'max_connections',
    'superuser_reserved_connections', 'reserved_connections', 'idle_session_timeout',
    'idle_in_transaction_session_timeout', 'tcp_keepalives_idle', 'tcp_keepalives_interval',
    'tcp_keepalives_count'
)
"""

# Who may not know more sees that there is one, and nothing else of it.
STANDBYS = """
SELECT application_name, sync_state FROM pg_stat_replication
WHERE application_name IS DISTINCT FROM 'pg_basebackup'
"""

CONNECTIONS = "SELECT coalesce(sum(numbackends), 0)::bigint FROM pg_stat_database"

# What was asked by others is not shown to everybody, but how old their snapshot is. Those of
# other databases keep nothing of ours; one who only has begun to write counts like a snapshot.
OLDEST_SNAPSHOT = """
SELECT whose, transactions, seconds FROM (
    SELECT 'session ' || pid || coalesce(' of ' || usename, '')
            || coalesce(', ' || nullif(application_name, ''), ''),
        greatest(age(backend_xmin), age(backend_xid))::bigint,
        extract(epoch FROM clock_timestamp() - xact_start)::float8
    FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
    UNION ALL
    SELECT 'prepared transaction ' || gid, age(transaction)::bigint,
        extract(epoch FROM clock_timestamp() - prepared)::float8
    FROM pg_prepared_xacts WHERE database = current_database()
    UNION ALL
    SELECT 'replication slot ' || slot_name, age(xmin)::bigint, NULL FROM pg_replication_slots
    UNION ALL
    SELECT 'standby ' || coalesce(application_name, pid::text), age(backend_xmin)::bigint, NULL
    FROM pg_stat_replication
) AS kept (whose, transactions, seconds)
WHERE transactions IS NOT NULL ORDER BY transactions DESC LIMIT 1
"""

# By the catalogue's names: asked for by its own name, a table in a schema that we may not use
# is an error.
RIGHTS = """
SELECT quote_ident(current_user), n.oid IS NOT NULL,
    coalesce(has_schema_privilege(n.oid, 'USAGE'), false),
    CASE WHEN n.oid IS NULL THEN has_database_privilege(current_database(), 'CREATE')
        ELSE has_schema_privilege(n.oid, 'CREATE') END
FROM (SELECT) AS one LEFT JOIN pg_namespace AS n ON n.nspname = $1
"""
TABLE_RIGHTS = """
SELECT has_table_privilege(c.oid, 'SELECT'), has_table_privilege(c.oid, 'INSERT'),
    has_table_privilege(c.oid, 'UPDATE'), has_table_privilege(c.oid, 'DELETE')
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2
"""

TIME = "SELECT extract(epoch FROM clock_timestamp())::float8"
