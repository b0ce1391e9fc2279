"""The way to a master that Sentinels watch: they say who it is, and are asked again and again.

At each connecting, and before a request if their last word is not fresh: a master that was
replaced may go on answering, and what it grants the new one does not know.

Asked again, with growing pauses and within the request's deadline: when no master can be
reached, and what a server refused because it no longer is the master. A request whose reply
was lost is not repeated here; see `routing`. Replicas are never asked.

Here is what both flavours share; what acts is in `_async/sentinel.py`.
"""
