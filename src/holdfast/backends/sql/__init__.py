"""What the SQL stores share: rows, what a verb reads and changes of them, the verbs as steps.

No statement is run here and no statement's text stands here. A step yields what it asks and is
sent the rows; a store's dialect has the text, and its driver runs it, in either flavour.
"""
