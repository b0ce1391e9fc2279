"""Every variable of a PostgreSQL session, either pinned or with the reason why any value is safe.

The rule is stated in `backends.sql.session_variables`. The list is `pg_settings`, without variables
that belong to the server itself or can only be set when it starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.sql.session_variables import Pinned

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

IDLE_TRANSACTION_SECONDS = 2.0
"""How long our transactions may be idle before the server ends them. Without this limit, a client
that stops in the middle of a transaction, for example because its machine sleeps, would keep the
name locked for everyone until it continues."""

LOCK_WAIT_SECONDS = 2.0
"""How long a statement waits for a row before the server refuses it and we try again. The limit
also applies to a request that its client has given up. Such a request must not wait longer and take
effect late."""

# The lowest `server_version_num` at which a variable exists.
SINCE_12, SINCE_14, SINCE_17 = "120000", "140000", "170000"

PINNED: Sequence[Pinned] = (
    # -- what statements mean ------------------------------------------------------------------
    Pinned(
        "search_path",
        "pg_catalog, pg_temp",
        "a function or an operator of somebody else's is called in place of the server's own",
    ),
    Pinned("quote_all_identifiers", "off", "on: our tables seem to have columns of other types"),
    Pinned("default_table_access_method", "heap", "another may lack UPDATE", SINCE_12),
    # -- how long they may take ----------------------------------------------------------------
    Pinned("statement_timeout", "0", "short: the server ends our statements"),
    Pinned("transaction_timeout", "0", "short: the server ends our connection", SINCE_17),
    Pinned("lock_timeout", f"{LOCK_WAIT_SECONDS * 1000:.0f}", "see LOCK_WAIT_SECONDS"),
    Pinned(
        "idle_in_transaction_session_timeout",
        f"{IDLE_TRANSACTION_SECONDS * 1000:.0f}",
        "see IDLE_TRANSACTION_SECONDS",
    ),
    Pinned("exit_on_error", "off", "on: an error that we expect ends the connection"),
    # -- what they cost ------------------------------------------------------------------------
    #
    # The planner, which has no statistics for a young table, may assume that a line of thousands is
    # short, and a session keeps the plans of its prepared statements. So every read uses an index.
    Pinned("enable_seqscan", "off", "on: a whole table is read, and again when it has grown"),
    Pinned("enable_bitmapscan", "off", "on: the same"),
    Pinned("enable_indexscan", "on", "off: the same"),
    Pinned("enable_nestloop", "on", "off: for one row of a list a whole table is read"),
    Pinned("jit", "off", "on: with costs that seem high each statement is compiled, for 0.5 s"),
    Pinned("max_parallel_workers_per_gather", "0", "more: with odd costs each read starts workers"),
)
"""Variables that any session can pin for itself, and any transaction for its duration."""

PINNED_FOR_SESSIONS: Sequence[Pinned] = (
    Pinned(
        "default_transaction_isolation",
        "read committed",
        "stricter: a statement by itself is refused where another was quicker, and repeated",
    ),
    Pinned("idle_session_timeout", "0", "short: the connection that listens ends", SINCE_14),
)
"""Variables that are pinned only in a session of our own. Elsewhere this is not needed or not
allowed, because our transactions name their isolation level, and a session that others use too
is not ours to keep open."""

LEFT: Mapping[str, str] = {
    # -- what a session cannot pin, or must not --------------------------------------------------
    "how an operator closes a server to writers, perhaps because another takes over: a lock that "
    "wrote nevertheless could be granted on both; waited for, then refused (25006)": """
        default_transaction_read_only""",
    "what a crash may forget is chosen for a whole database; the page and the doctor say so": """
        synchronous_commit commit_delay commit_siblings""",
    "of the transaction under way; ours say how they begin": """
        transaction_deferrable transaction_isolation transaction_read_only""",
    "only for read-only transactions that are serializable": "default_transaction_deferrable",
    "libpq says it when it connects; a lent connection with another one is refused": """
        client_encoding""",
    "an administrator's, and none of our tables has what they are for": """
        session_replication_role row_security event_triggers restrict_nonsystem_relation_kind
        lo_compat_privileges allow_system_table_mods allow_in_place_tablespaces""",
    "an extension's own": "*.*",
    "libraries and functions that an administrator loads": """
        backtrace_functions dynamic_library_path extension_* local_preload_libraries
        output_plugin_libraries session_preload_libraries""",
    "repairs and tests of the server itself": """
        debug_* ignore_checksum_failure ignore_system_indexes jit_* post_auth_delay trace_*
        wal_consistency_checking zero_damaged_pages""",
    # -- what our statements do not use ----------------------------------------------------------
    "how values are written as text; ours are binary, or numbers of seconds": """
        DateStyle IntervalStyle TimeZone bytea_output extra_float_digits lc_monetary lc_numeric
        lc_time timezone_abbreviations xmlbinary xmloption""",
    "how literals are read; ours have neither a backslash, nor NULL in an array or after =": """
        array_nulls backslash_quote escape_string_warning standard_conforming_strings
        transform_null_equals""",
    "statements and types that we do not use": """
        check_function_bodies createrole_self_grant default_text_search_config file_copy_method
        gin_* icu_validation_level md5_password_warnings password_encryption scram_iterations
        temp_tablespaces""",
    "where a table lies, and how long values in it are compressed": """
        default_tablespace default_toast_compression""",
    "the language of messages; we go by their codes": "lc_messages",
    "which messages come, and what sessions are called": """
        application_name client_min_messages""",
    # -- how statements run, not what they do ----------------------------------------------------
    "how a plan is chosen, once the scans are settled and nothing is compiled": """
        constraint_exclusion cpu_* cursor_tuple_fraction default_statistics_target
        effective_cache_size enable_async_append enable_distinct_reordering enable_gathermerge
        enable_group_by_reordering enable_hashagg enable_hashjoin enable_incremental_sort
        enable_indexonlyscan enable_material enable_memoize enable_mergejoin enable_parallel_*
        enable_partition* enable_presorted_aggregate enable_self_join_elimination enable_sort
        enable_tidscan from_collapse_limit geqo* join_collapse_limit plan_cache_mode
        random_page_cost recursive_worktable_factor seq_page_cost stats_fetch_consistency
        synchronize_seqscans""",
    "overruled by max_parallel_workers_per_gather": """
        force_parallel_mode max_parallel_workers max_parallel_maintenance_workers
        min_parallel_* parallel_*""",
    "how much memory or disk it takes, and how it is read": """
        backend_flush_after effective_io_concurrency hash_mem_multiplier io_combine_limit
        logical_decoding_work_mem maintenance_* max_stack_depth temp_buffers temp_file_limit
        work_mem""",
    "when the server looks for a deadlock; lock_timeout comes soon after": "deadlock_timeout",
    "how tables are cleaned, by whoever does it": "vacuum_*",
    "how changes are written and sent on": """
        wal_compression wal_init_zero wal_recycle wal_sender_timeout wal_skip_threshold""",
    "what is logged, shown or counted": """
        compute_query_id log_* track_* update_process_title""",
    "when the server notices that a client is gone; the doctor says": """
        client_connection_check_interval tcp_*""",
}
