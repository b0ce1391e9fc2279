"""Shared code of the SQL stores.

The package has the rows of a door and the verbs of the port as steps. For stores on a server it
also has the transport and the waiting. It contains no SQL text and depends on no driver. Steps are
generators that yield queries and are sent the resulting rows; each store's dialect supplies the SQL
text. SQLite runs the steps in its worker, and a server's store runs them over its transport.
"""
