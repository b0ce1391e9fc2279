"""What the SQL stores share: rows and verbs as steps; for servers also wire, batches and waiting.

No statement's text stands here, and no driver is known. A step yields what it asks and is sent
the rows; a store's dialect has the text. SQLite runs it in its worker, and a server's store over
the wire.
"""
