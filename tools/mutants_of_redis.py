"""The mutants of Redis, Redlock and memcached: scripts, tombstones, quarantine, swaps."""

from __future__ import annotations

from mutant_copies import Mutant

MUTANTS = (
    Mutant(
        "redis-releases-for-anybody",
        "backends/redis/scripts/release.lua",
        "if claim == ARGV[1] and tonumber(ends) >",
        "if claim and tonumber(ends) >",
        "A late holder's release ends the hold of its successor.",
        ("backends/redis/test_scripts.py::test_the_scripts_answer_as_the_door_does",),
        store="redis",
        why_unseen="this line ends only a hold for which nobody has waited, and in a challenge "
        "somebody nearly always does",
    ),
    Mutant(
        "redis-renews-what-is-over",
        "backends/redis/scripts/renew.lua",
        "if claim == ARGV[1] and tonumber(ends) > now then",
        "if claim == ARGV[1] then",
        "A renewal extends a hold whose time is over.",
        (
            "backends/redis/test_scripts.py::test_a_lone_hold_whose_time_is_over_is_neither_renewed_nor_released",
        ),
        why_unseen="a hold that is revived had no successor; see renewal-resurrects",
    ),
    Mutant(
        "redis-renews-for-anybody",
        "backends/redis/scripts/renew.lua",
        "if claim == ARGV[1] and tonumber(ends) > now then",
        "if tonumber(ends) > now then",
        "A late holder's renewal extends the hold of its successor, and both trust it.",
        ("backends/redis/test_scripts.py::test_the_scripts_answer_as_the_door_does",),
        store="redis",
    ),
    Mutant(
        "redis-token-of-the-clock",
        "backends/redis/scripts/acquire.lua",
        "if tonumber(door[2]) < now and math.ceil(ends / 1000)",
        "if math.ceil(ends / 1000)",
        "A token repeats, or goes back, when the server's clock does.",
        ("backends/redis/test_scripts.py::test_the_scripts_answer_as_the_door_does",),
        store="redis",
    ),
    Mutant(
        "redis-more-than-the-capacity",
        "backends/redis/scripts/acquire.lua",
        "asking.weight - held <= capacity - used",
        "used < capacity",
        "A claim enters although only a part of its weight fits.",
        ("backends/redis/test_scripts.py::test_the_scripts_answer_as_the_door_does",),
        store="redis",
    ),
    Mutant(
        "redis-no-tombstone",
        "backends/redis/scripts/withdraw.lua",
        "if ARGV[2] == '1' then\n  bury(",
        "if ARGV[2] == '2' then\n  bury(",
        "A late copy of a request lets in a claim that was withdrawn, and nobody releases it.",
        ("backends/redis/test_scripts.py::test_the_scripts_answer_as_the_door_does",),
        store="redis",
    ),
    # -- Redlock ---------------------------------------------------------------------------
    Mutant(
        "redlock-no-quarantine",
        "backends/redlock/quarantine.py",
        "return Admission(max(0.0, left), max(",
        "return Admission(0.0, max(",
        "A node that forgot its grants counts again while a lock it granted is held.",
        ("backends/redlock/test_decisions.py::test_no_single_clock_ends_it",),
        store="redlock",
    ),
    Mutant(
        "redlock-releases-for-anybody",
        "backends/redlock/scripts/release.lua",
        "local was_ours = held and held.claim == ARGV[1]",
        "local was_ours = held",
        "A late holder's release ends the hold of its successor.",
        (
            "backends/redlock/test_scripts.py::test_a_claim_that_has_lost_the_name_changes_nothing_of_its_successors",
        ),
        store="redlock",
    ),
    Mutant(
        "redlock-renews-for-anybody",
        "backends/redlock/scripts/renew.lua",
        "if held and held.claim == ARGV[1] then",
        "if held then",
        "A late holder's renewal extends the hold of its successor, and both trust it.",
        (
            "backends/redlock/test_scripts.py::test_a_claim_that_has_lost_the_name_changes_nothing_of_its_successors",
        ),
        store="redlock",
    ),
    Mutant(
        "redlock-late-attempt-lets-in",
        "backends/redlock/scripts/acquire.lua",
        "is_late = stone and tonumber(string.match(stone, '%d+')) >= attempt",
        "is_late = false",
        "A late copy of a request lets in a claim that was withdrawn.",
        (
            "backends/redlock/test_scripts.py::test_a_late_withdrawal_lets_no_attempt_in_that_is_over",
        ),
        store="redlock",
    ),
    # -- memcached -------------------------------------------------------------------------
    Mutant(
        "memcached-swaps-without-comparing",
        "backends/memcached/meta.py",
        'return b"ms %b %d C%d T%d c\\r\\n%b\\r\\n" % (key, len(value), cas, seconds, value)',
        'return b"ms %b %d T%d c\\r\\n%b\\r\\n" % (key, len(value), seconds, value)',
        "Two clients that read the same free item both take it.",
        (
            "backends/memcached/test_interleavings.py::test_an_expiry_between_looking_and_deleting_frees_nobody_elses_lock",
        ),
        store="memcached",
    ),
    Mutant(
        "memcached-owner-not-compared",
        "backends/memcached/records.py",
        "return self.state is ItemState.HELD and self.claim == claim.id",
        "return self.state is ItemState.HELD",
        "A late holder renews or releases the hold of its successor.",
        (
            "backends/memcached/test_interleavings.py::test_an_expiry_between_looking_and_deleting_frees_nobody_elses_lock",
        ),
        store="memcached",
    ),
    Mutant(
        "memcached-item-ends-early",
        "backends/memcached/records.py",
        "return math.ceil(ttl) + 1",
        "return math.ceil(ttl)",
        "The server may end an item up to a second before its holder stops trusting it.",
        ("backends/memcached/test_records.py::test_the_server_is_asked_for_a_second_more",),
        store="memcached",
    ),
    Mutant(
        "memcached-no-tombstone",
        "backends/memcached/verbs.py",
        "        if is_over(claim):\n            return Held(())\n",
        "",
        "A claim that was withdrawn while it asked holds the name.",
        (
            "backends/memcached/test_withdrawing.py::test_a_claim_that_is_withdrawn_while_it_asks_gets_nothing",
        ),
        store="memcached",
    ),
)
