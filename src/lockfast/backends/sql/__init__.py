"""Shared code of the SQL stores.

It contains the rows of a door, the verbs of the port as steps, and, for stores on a server, the
transport and the waiting. Nothing here contains SQL text or depends on a driver. Steps are
generators that yield queries and are sent their rows; each store's dialect supplies the SQL text.
SQLite runs the steps in its worker, and a server's store runs them over its transport.
"""
