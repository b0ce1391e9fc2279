"""Every variable of a MySQL or MariaDB session, either pinned or with the reason why it is not.

The rule is stated in `backends.sql.session_variables`. Variables that a session cannot set (because
the server forbids it, or only an administrator may) are in `LEFT`, with what happens instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.sql.session_variables import Pinned

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SERVER_IDLE_SECONDS = 60.0
"""How long a connection may be idle before the server ends it, in seconds. The limit is for
connections that their client could not close."""

LOCK_WAIT_SECONDS = 2.0
"""How long a request waits for a locked row before it fails and is repeated, in seconds. The limit
also applies to a request that its client has given up. Such a request must not wait much longer and
take effect late."""

# The servers that have a variable, as the start of an executable comment. These servers read the
# contents of the comment, and all others skip it. So one text serves all servers, even behind a
# proxy that announces a version of its own.
MARIADB, MYSQL = "M!100600", "!80000"
SINCE_MARIADB_11_6 = "M!110600"

PINNED: Sequence[Pinned] = (
    # -- whether it commits --------------------------------------------------------------------
    Pinned("autocommit", "1", "off: a statement by itself is not committed"),
    Pinned(
        "completion_type",
        "'NO_CHAIN'",
        "CHAIN: our COMMIT opens the next transaction, and a grant is returned uncommitted; "
        "RELEASE: our COMMIT ends the connection",
    ),
    Pinned("unique_checks", "1", "off: rows may be loaded in bulk, and duplicates found later"),
    Pinned("foreign_key_checks", "1", "off, together with unique_checks: the same"),
    # -- what is read --------------------------------------------------------------------------
    Pinned(
        "sql_select_limit",
        "18446744073709551615",
        "a limit hides holders from us, and too many are let in",
    ),
    Pinned("sql_big_selects", "1", "off: max_join_size refuses our joins"),
    Pinned("sql_safe_updates", "0", "on: an UPDATE or DELETE may be refused for its WHERE"),
    Pinned("query_cache_type", "'OFF'", "on: a read may be answered from memory", MARIADB),
    Pinned("max_sort_length", "1024", "short: a line or a list is sorted by its first bytes alone"),
    Pinned(
        "group_concat_max_len",
        "65536",
        "short: of many requests that go together, some are left out",
    ),
    # -- what the text means -------------------------------------------------------------------
    Pinned(
        "sql_mode",
        "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
        "how text is quoted; whether a value that does not fit is cut",
    ),
    Pinned("time_zone", "'+00:00'", "SYSDATE is in the session's time zone, and our times are UTC"),
    Pinned("character_set_client", "'utf8mb4'", "in which charset the server reads our text"),
    Pinned("character_set_results", "'utf8mb4'", "in which charset it answers"),
    Pinned("collation_connection", "'utf8mb4_bin'", "how it compares text that has no column"),
    Pinned("sql_if_exists", "0", "on: DROP and ALTER say nothing of what is missing", MARIADB),
    # -- how long it may take ------------------------------------------------------------------
    Pinned(
        "wait_timeout",
        f"{SERVER_IDLE_SECONDS:.0f}",
        "short: the connection ends between two requests",
    ),
    Pinned("innodb_lock_wait_timeout", f"{LOCK_WAIT_SECONDS:.0f}", "see LOCK_WAIT_SECONDS"),
    Pinned("lock_wait_timeout", f"{LOCK_WAIT_SECONDS:.0f}", "the same, of a table"),
    Pinned("max_statement_time", "0", "short: the server ends our statements", MARIADB),
    Pinned("max_execution_time", "0", "short: the server ends our reads", MYSQL),
    Pinned("idle_transaction_timeout", "0", "short: it ends a transaction of ours", MARIADB),
    Pinned("idle_readonly_transaction_timeout", "0", "the same", MARIADB),
    Pinned("idle_write_transaction_timeout", "0", "the same", MARIADB),
    Pinned("sort_buffer_size", "262144", "small: long names cannot be sorted, and are refused"),
    Pinned("max_session_mem_used", "9223372036854775807", "small: refused", MARIADB),
    Pinned("tmp_disk_table_size", "18446744073709551615", "small: a join is refused", MARIADB),
    Pinned("innodb_snapshot_isolation", "0", "on: races fail with 1020", SINCE_MARIADB_11_6),
    # -- what it costs -------------------------------------------------------------------------
    Pinned("sql_notes", "0", "on: each note costs the driver a round trip"),
)

LEFT: Mapping[str, str] = {
    # -- what a session cannot pin, or must not --------------------------------------------------
    "set by SET TRANSACTION ISOLATION LEVEL, which every server knows": """
        transaction_isolation tx_isolation""",
    "how an operator closes a server to writers, perhaps because another takes over: a lock that "
    "wrote nevertheless could be granted on both; refused with a sentence (1792)": """
        transaction_read_only tx_read_only""",
    "STATEMENT cannot log what is written at READ COMMITTED; refused with a sentence (1665)": """
        binlog_format""",
    "with another engine our CREATE TABLE is refused with a sentence (1286), as only an "
    "administrator may change it": """
        enforce_storage_engine""",
    "an administrator's limit, which a session cannot raise; what it refuses has done nothing": """
        connection_memory_* global_connection_memory_tracking max_allowed_packet
        max_tmp_session_space_usage max_user_connections parser_max_mem_size""",
    "overruled by sql_big_selects": "max_join_size",
    "set by an application for the statement that follows, on a connection that it lends; a "
    "session of ours begins without it, and a frozen clock is refused": """
        gtid_next gtid_seq_no identity insert_id last_insert_id pseudo_* rand_seed1 rand_seed2
        require_row_format skip_parallel_replication skip_replication sql_log_bin statement_id
        timestamp original_commit_timestamp original_server_version immediate_server_version
        use_secondary_engine wsrep_gtid_seq_no wsrep_on""",
    # -- what our statements do not use ----------------------------------------------------------
    "says how something is, and cannot be set": """
        error_count external_user gtid_owned in_transaction last_gtid proxy_user warning_count""",
    "no column of ours counts by itself": "auto_increment_* sql_auto_is_null",
    "our tables name their engine, charset and collation, and have a primary key": """
        character_set_database character_set_server character_set_collations collation_database
        collation_server default_collation_for_utf8mb4 default_storage_engine storage_engine
        sql_generate_invisible_primary_key sql_require_primary_key innodb_strict_mode""",
    "follows collation_connection": "character_set_connection",
    "how tables are laid out on disk": """
        column_compression_* default_table_encryption innodb_compression_default
        innodb_default_encryption_key_id""",
    "we alter no table, and load none": """
        alter_algorithm binlog_alter_two_phase bulk_insert_buffer_size innodb_ddl_*
        innodb_tmpdir keep_files_on_create max_delayed_threads max_insert_delayed_threads
        old_alter_table progress_report_time select_into_*""",
    "no constraint, trigger, view, routine or history belongs to our tables": """
        check_constraint_checks enable_cascade_triggers explicit_defaults_for_timestamp
        max_sp_recursion_depth restrict_fk_on_non_standard_key system_versioning_*
        updatable_views_with_limit""",
    "engines of other tables": """
        aria_* deadlock_search_depth_* deadlock_timeout_* innodb_ft_* low_priority_updates myisam_*
        external_table_* transaction_allow_batching default_tmp_storage_engine
        internal_tmp_mem_storage_engine preload_buffer_size innodb_table_locks""",
    "functions and statements that we do not use": """
        block_encryption_mode character_set_filesystem cte_max_recursion_depth
        default_regex_flags default_week_format div_precision_increment
        generated_random_password_length max_points_in_geometry max_recursive_iterations
        mhnsw_* old_passwords standard_compliant_cte windowing_use_high_precision
        xa_detach_on_prepare lc_time_names""",
    "what SHOW, EXPLAIN, ANALYZE and notes say": """
        analyze_* end_markers_in_json explain_* histogram_* information_schema_stats_expiry
        max_error_count note_verbosity print_identified_with_as_hex show_* sql_quote_show_create
        sql_warnings terminology_use_previous""",
    "the language of messages; we go by their numbers": "lc_messages",
    "old forms of features that we do not use": "new_mode old old_mode",
    # -- how it is done, not what ----------------------------------------------------------------
    "how a plan is chosen or a join done; its rows are the same, and a deadlock is repeated": """
        big_tables enable_secondary_engine_statistics eq_range_index_dive_limit
        expensive_subquery_limit in_predicate_conversion_threshold join_cache_level
        max_length_for_sort_data max_rowid_filter_size max_seeks_for_key optimizer_*
        range_optimizer_max_mem_size secondary_engine_cost_threshold sql_buffer_result
        use_stat_tables""",
    "how much memory it takes at a time": """
        *_alloc_block_size *_prealloc_size join_buffer_size join_buffer_space_limit
        max_heap_table_size max_tmp_tables mrr_buffer_size net_buffer_length read_buffer_size
        read_rnd_buffer_size rowid_merge_buff_size set_operations_buffer_size
        tmp_memory_table_size tmp_table_size innodb_parallel_read_threads""",
    "overruled by query_cache_type": "query_cache_strip_comments query_cache_wlock_invalidate",
    "what is logged, traced or counted": """
        log_* long_query_time min_examined_row_limit profiling* slow_query_log sql_log_off""",
    "what the binary log contains, and how replicas apply it": """
        binlog_annotate_row_events binlog_direct_non_transactional_updates binlog_row_*
        binlog_rows_query_log_events binlog_transaction_* default_master_connection
        gtid_domain_id max_relay_log_size rbr_exec_mode server_id sql_slave_skip_counter""",
    "what the protocol adds for clients that ask for it; our drivers do not": """
        resultset_metadata session_track_* redirect_url""",
    "of connections in which people type": "interactive_timeout",
    "how long the network may stand still within one message; then the connection ends": """
        net_read_timeout net_retry_count net_write_timeout tcp_nodelay""",
    "in which order a pool of threads serves": "thread_pool_priority",
    "how strictly the nodes of a cluster agree; certification refuses a stale decision": """
        group_replication_consistency wsrep_causal_reads wsrep_dirty_reads wsrep_osu_method
        wsrep_retry_autocommit wsrep_sync_wait wsrep_trx_fragment_*""",
}
