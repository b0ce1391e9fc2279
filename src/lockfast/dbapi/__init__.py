"""The caller's own connections: which database they lead to, and how to use them.

The features other than the locks (`lockfast.fencing`, `lockfast.sql_rows`) work in the caller's own
transaction. So this package opens, commits and closes nothing. It imports no driver either, because
a caller that has a connection has its driver.
"""
