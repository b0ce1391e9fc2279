"""The way to a master that Sentinels watch: they say who it is, and are asked at each connecting.

Asked again, with growing pauses and within the request's deadline: when no master can be
reached, and what a server refused because it no longer is the master. A request whose reply
was lost is not repeated here; see `topology`. Replicas are never asked.

`aio` and `threads` are a hand-written pair.
"""
