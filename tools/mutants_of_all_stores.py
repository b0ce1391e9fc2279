"""The mutants of what all stores share: time, the door, the quorum, and the guards."""

from __future__ import annotations

from mutant_copies import Mutant

ONE_CLOCK = (
    "the machine of a challenge has one clock rate, and its answers come long before the drift "
    "of a ttl would matter"
)
OWN_RESOURCE = "the resource of a challenge compares tokens itself, without these guards"
NO_COMMITS = "the challenge knows nothing of commits that were not answered"

WATCHDOG = "shell/test_watchdog.py"

MUTANTS = (
    # -- trust -----------------------------------------------------------------------------
    Mutant(
        "grant-counted-from-its-answer",
        "client/_async/acquisition.py",
        "hold = self._believed(answer, sent_at)",
        "hold = self._believed(answer, client.clock.now())",
        "A grant whose answer was slow is trusted longer than the store keeps it.",
        ("shell/test_slow_answers.py::test_a_grant_that_was_slow_is_trusted_from_its_request",),
        store="redis",
        why_unseen="the first renewal, a third of the ttl later, counts from its own request, so "
        "it has to fail too before two clients trust a lease",
    ),
    Mutant(
        "renewal-counted-from-its-answer",
        "client/_async/watchdog.py",
        "        start = sent_at\n",
        "        start = now\n",
        "A renewal whose answer was slow is trusted longer than the store keeps it.",
        ("shell/test_slow_answers.py::test_a_renewal_that_was_slow_is_trusted_from_its_request",),
        store="redis",
    ),
    Mutant(
        "no-allowance-for-clocks",
        "core/renewal.py",
        "return sent_at + ttl * (1 - CLOCK_DRIFT_FRACTION) - TRUST_MARGIN_SECONDS",
        "return sent_at + ttl",
        "A holder whose clock is slow trusts its lease after the store has given it away.",
        ("core/test_decisions.py::test_trust_ends_before_the_store_could_give_the_name_away",),
        why_unseen=ONE_CLOCK,
    ),
    Mutant(
        "pushed-grant-trusted-for-its-ttl",
        "client/_async/acquisition.py",
        "sent_at, span = grant.window.since, min(span, grant.window.seconds)",
        "sent_at = grant.window.since",
        "A grant by a message is trusted after its window, when the next claim is let in.",
        (
            "shell/test_windows.py::test_without_an_answered_renewal_it_is_lost_when_the_window_ends",
        ),
        store="redis",
        why_unseen="of eight names only one has leases longer than the window; with `--workload "
        "long-lease` it was found within a minute",
    ),
    Mutant(
        "window-counted-from-the-message",
        "backends/redis/_async/backend.py",
        "window = Window(waiting.asked_at, min",
        "window = Window(self._clock.now(), min",
        "A grant by a message that came late is trusted after its window.",
        ("backends/redis/test_pushed_grants.py::test_who_trusts_a_message_is_inside",),
        store="redis",
    ),
    Mutant(
        "late-renewal-revives",
        "core/renewal.py",
        "if outcome in (Renewal.LOST, Renewal.BROKEN) or now >= until:",
        "if outcome in (Renewal.LOST, Renewal.BROKEN):",
        "An answer that comes after the deadline revives a lease whose loss was reported.",
        ("core/test_decisions.py::test_an_answer_after_the_deadline_revives_nothing",),
        why_unseen="the watchdog reports the loss at the deadline, and a lost hold stays lost",
    ),
    Mutant(
        "trusted-without-end",
        "client/_async/hold.py",
        "return self.hold_state is HELD and now < self.until",
        "return self.hold_state is HELD",
        "A holder that was frozen finds its lease trusted until the watchdog has run.",
        (
            f"{WATCHDOG}::test_a_thread_does_not_trust_a_lease_that_ended_while_the_background_slept",
            f"{WATCHDOG}::test_a_task_does_not_trust_a_lease_that_ended_while_the_background_slept",
        ),
        store="redis",
        why_unseen="the watchdog marks the lease as lost as soon as a frozen process goes on, "
        "before the client asks",
    ),
    # -- the door --------------------------------------------------------------------------
    Mutant(
        "token-only-of-the-clock",
        "core/door.py",
        "return max(last + 1, int(clock * 1_000_000))",
        "return int(clock * 1_000_000)",
        "A token repeats, or goes back, when the store's clock does.",
        (
            "core/test_decisions.py::test_a_token_is_larger_than_the_last_and_no_smaller_than_the_clock",
        ),
        store="postgresql",
        why_unseen="a token that goes back while the server's clock is set is seen, and excused",
    ),
    Mutant(
        "repeat-keeps-the-old-deadline",
        "core/door.py",
        "            place.until = now + claim.ttl\n            self.changed.append(place)\n"
        "            return Grant(",
        "            self.changed.append(place)\n            return Grant(",
        "A repeated acquire is trusted from the repeat, while the store counts from the first.",
        ("core/test_door.py::test_a_repeated_arrival_holds_for_its_ttl_from_the_repeat",),
        store="postgresql",
    ),
    Mutant(
        "renewal-resurrects",
        "core/door.py",
        "return place is not None and place.state <= ADMITTED and now < place.until",
        "return place is not None and place.state <= ADMITTED",
        "A renewal extends a hold whose time is over.",
        ("core/test_door.py::test_a_hold_whose_time_is_over_is_neither_renewed_nor_released",),
        why_unseen="the door expires what is overdue whenever another claim asks, so a hold that "
        "is revived had no successor",
    ),
    Mutant(
        "no-tombstone",
        "core/door.py",
        "        if tombstone:\n            self._add_tombstone(claim, now=now, state=GONE)\n",
        "",
        "A late copy of a request lets in a claim that was withdrawn, and nobody releases it.",
        ("core/test_door.py::test_a_late_copy_of_a_withdrawn_claim_is_refused",),
        store="postgresql",
    ),
    Mutant(
        "more-than-the-capacity",
        "core/admission.py",
        "if more == 0 or (is_open and more <= free):",
        "if more == 0 or (is_open and free > 0):",
        "A claim enters although only a part of its weight fits.",
        ("core/test_admission.py::test_never_more_inside_than_fit",),
        store="etcd",
    ),
    Mutant(
        "overtaking-in-line",
        "core/admission.py",
        "            is_open = False\n            if not parties:\n                break\n",
        "            pass\n",
        "Small claims pass a large one in line, which may wait for ever.",
        ("core/test_admission.py::test_the_first_that_does_not_fit_closes_the_door",),
        why_unseen="claims that come and go leave room for the large one soon enough",
    ),
    # -- the quorum ------------------------------------------------------------------------
    Mutant(
        "half-is-a-majority",
        "core/quorum.py",
        "return nodes // 2 + 1",
        "return nodes // 2",
        "Two clients each have two of five nodes, and both hold the lock.",
        ("core/test_quorum.py::test_two_majorities_share_a_node",),
        store="redlock",
    ),
    Mutant(
        "token-of-a-minority",
        "core/quorum.py",
        "    return AgreedToken(max(tokens), is_settled=False)",
        "    return AgreedToken(max(tokens), is_settled=True)",
        "A token is used that no majority has stored, and the next one may be smaller.",
        ("core/test_quorum_tokens.py", "core/test_quorum.py"),
        store="redlock",
    ),
    # -- guards ----------------------------------------------------------------------------
    Mutant(
        "row-takes-a-smaller-token",
        "fencing/rows.py",
        '" IS NULL OR ", number, " <= "',
        '" IS NULL OR ", number, " IS NOT NULL OR ", number, " <= "',
        "A row guard lets a late holder write.",
        ("fencing/test_rows.py::test_a_smaller_token_is_refused_and_both_are_told",),
        why_unseen=OWN_RESOURCE,
    ),
    Mutant(
        "redis-guard-takes-a-smaller-token",
        "fencing/redis_scripts.py",
        "tonumber(seen) > tonumber(token)",
        "tonumber(seen) > 2 * tonumber(token)",
        "A guard in Redis lets a late holder write.",
        ("fencing/test_redis.py::test_tokens_are_compared_as_numbers_and_kept_exactly",),
        why_unseen=OWN_RESOURCE,
    ),
    Mutant(
        "file-takes-a-smaller-token",
        "fencing/file.py",
        "if seen > who.token:",
        "if seen > who.token + 1:",
        "A file guard lets the holder before the last one write.",
        ("fencing/test_file.py::test_a_smaller_token_is_refused_and_both_are_told",),
        why_unseen=OWN_RESOURCE,
    ),
    Mutant(
        "changed-row-is-overwritten",
        "sql_rows/tables.py",
        'f" AND {column} = "',
        'f" AND {column} >= "',
        "A row is written although another has changed it since it was read.",
        ("sql_rows/test_versioned.py::test_what_was_read_can_be_written_once",),
        why_unseen="versioned rows are written without a lock, so no contender holds one",
    ),
    Mutant(
        "released-on-an-unanswered-commit",
        "sql_rows/_async/commit.py",
        "        if self._is_unanswered:\n            self.leave_to_ttl()",
        "        if False:\n            self.leave_to_ttl()",
        "A lease is released while a commit that was sent may still take effect.",
        ("sql_rows/test_unanswered_commits.py::test_a_commit_without_an_answer_releases_nothing",),
        why_unseen=NO_COMMITS,
    ),
)
