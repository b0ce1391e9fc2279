"""One class for each store: its servers, a proxy for each client and server, and its faults.

`catalog.py` lists all classes and imports each class only when it is needed, because its driver may
not be installed.
"""
