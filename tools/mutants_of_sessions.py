"""The mutants of etcd and ZooKeeper: sessions, what proves them, revisions and transactions."""

from __future__ import annotations

from mutant_copies import Mutant

ETCD = "backends/etcd/test_transactions.py"

MUTANTS = (
    Mutant(
        "etcd-acquires-without-its-session",
        "backends/etcd/transactions.py",
        "[guard.condition, _none(smaller), _none(larger)]",
        "[_none(smaller), _none(larger)]",
        "A request that comes after its claim was withdrawn puts a hold that nobody ends.",
        (
            "backends/etcd/faults/test_sessions.py::test_a_request_that_arrives_after_its_withdrawal_changes_nothing",
        ),
        store="etcd",
    ),
    Mutant(
        "etcd-admits-without-its-session",
        "backends/etcd/transactions.py",
        "[guard.condition, _created(ours.claim, token), in_front, _none(holds)]",
        "[_created(ours.claim, token), in_front, _none(holds)]",
        "A late copy of an admission puts the hold of a claim that was withdrawn.",
        (f"{ETCD}::test_an_admission_that_comes_after_its_session_has_moved_on_changes_nothing",),
        store="etcd",
    ),
    Mutant(
        "etcd-admits-from-a-line-without-its-session",
        "backends/etcd/transactions.py",
        "[guard.condition, _created(ours.claim, token)],",
        "[_created(ours.claim, token)],",
        "A late copy of an admission puts the hold of a permit that was withdrawn.",
        (f"{ETCD}::test_an_admission_that_comes_after_its_session_has_moved_on_changes_nothing",),
        store="etcd",
    ),
    Mutant(
        "etcd-repeat-supersedes-nothing",
        "backends/etcd/_async/line.py",
        "is_repeat = sent_under is not None and sent_under >= guard.generation",
        "is_repeat = False",
        "A first copy that comes after its repeat was broken recreates the hold.",
        (
            "backends/etcd/faults/test_late_copies.py::test_a_repeat_of_a_later_request_supersedes_what_was_not_answered_before",
        ),
        store="etcd",
    ),
    Mutant(
        "etcd-passes-a-holder",
        "backends/etcd/transactions.py",
        "[guard.condition, _created(ours.claim, token), in_front, _none(holds)]",
        "[guard.condition, _created(ours.claim, token), in_front]",
        "The first in line holds although the hold of a failed holder still counts.",
        (f"{ETCD}::test_the_first_in_line_does_not_pass_a_hold_whose_claim_is_gone",),
        store="etcd",
        why_unseen="a living holder's claim is in front, which is compared too; its hold is alone "
        "only after a leader froze for longer than the ttl, came back, and revoked the lease",
    ),
    Mutant(
        "etcd-heartbeat-not-proven",
        "backends/etcd/_async/transport.py",
        "if read.header.confirms(kept.header):",
        "if read:",
        "A keep-alive that a deposed leader answered proves the session.",
        (
            "backends/etcd/test_heartbeats.py::test_a_member_for_each_request_proves_nothing_and_is_not_asked_on_and_on",
        ),
        store="etcd",
        why_unseen="both requests go to one member, and the read needs a quorum: their headers "
        "differ only if an election falls between the two",
    ),
    Mutant(
        "etcd-key-made-again-is-ours",
        "backends/etcd/line.py",
        'if one.token == own.token and f"{prefix}{one.name}" == own.key',
        'if f"{prefix}{one.name}" == own.key',
        "A holder trusts a key that was deleted, and made again by a late request.",
        (
            "backends/etcd/faults/test_late_copies.py::test_one_who_waits_and_whose_key_was_made_again_is_granted_by_the_new_one",
        ),
        store="etcd",
    ),
    Mutant(
        "zookeeper-node-made-again-is-ours",
        "backends/zookeeper/_async/line.py",
        'return getattr(stat, "czxid", None) == one.token',
        "return stat is not None",
        "A holder trusts a node that was deleted, and made again by a late request.",
        (
            "backends/zookeeper/faults/test_made_again.py::test_one_who_waits_and_whose_node_was_made_again_takes_a_place_of_its_own",
        ),
        store="zookeeper",
    ),
    Mutant(
        "session-proven-by-a-member",
        "backends/sessions/keepalive.py",
        "            if is_confirmed:\n                self.counted_from =",
        "            if newest:\n                self.counted_from =",
        "An answer that no quorum confirmed proves a session that may have ended.",
        ("backends/sessions/test_proof.py",),
        store="zookeeper",
    ),
    Mutant(
        "session-proven-by-its-newest-contact",
        "backends/sessions/keepalive.py",
        "known = [one for one in self._contacts if one[1] <= sent_at]",
        "known = self._contacts",
        "A contact counts before the leader can have heard of it.",
        ("backends/sessions/test_proof.py",),
        store="zookeeper",
    ),
    Mutant(
        "zookeeper-line-out-of-order",
        "backends/zookeeper/nodes.py",
        'return sorted(map(node_of, children), key=attrgetter("sequence"))',
        'return sorted(map(node_of, children), key=attrgetter("name"))',
        "A claim that came later holds while the first one does.",
        ("backends/zookeeper/decisions/test_nodes.py",),
        store="zookeeper",
    ),
)
