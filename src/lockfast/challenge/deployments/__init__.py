"""One class for each store: its servers, the way of each client to them, what is done to them.

`choosing.py` knows them all, and imports each late: its driver may not be installed.
"""
