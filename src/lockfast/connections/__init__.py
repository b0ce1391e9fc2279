"""Connections that the caller opened: which database they lead to, and how it is spoken to.

What stands beside the locks (`lockfast.fencing`, `lockfast.sql_rows`) works in the caller's own
transaction. So it opens, commits and closes nothing, and imports no driver: whoever has a
connection has its driver.
"""
