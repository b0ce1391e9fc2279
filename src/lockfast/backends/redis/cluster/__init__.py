"""The way to a cluster: each name's requests go to the node that serves its slot.

A request follows where a node points (MOVED, ASK), and asks again, with growing pauses and
within its deadline, what was refused for the moment (CLUSTERDOWN, TRYAGAIN) or could not be
sent. A request whose reply was lost is not repeated here; see `routing`. Replicas are never
asked for a name, only, like any node, for the map of slots.

The map is asked for again when it may be old: a node does not answer, points elsewhere, or
refuses as it would if it were cut off from its peers, or no longer one of them. Which of the
nodes is then believed says `maps`.

While a slot is on its way from one node to another, neither has all keys of a name (most
names have some that do not exist), so the nodes refuse (TRYAGAIN) whatever is asked of it:
held leases live on if the slot arrives before their time is up, which mostly takes
milliseconds. A node's clock judges the leases it serves: where a slot moves, by failover or
by resharding, the difference of the clocks counts against the lease, or for it.

Messages reach every node over the cluster's bus, so one subscription, to any node, hears all
of them. It is given up when that node does not answer, or hears the others no more; see
`listening`.

Here is what both flavours share; what acts is in `_async/cluster.py`.
"""
