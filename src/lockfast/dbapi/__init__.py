"""The caller's own connections: which database a connection leads to, and how to use it.

The features other than the locks (`lockfast.fencing`, `lockfast.sql_rows`) work in the caller's own
transaction. So this package opens, commits and closes nothing. It imports no driver either, because
a caller that has a connection also has the driver.
"""
