"""One class for each store: its servers, each client's proxies to them, and its faults.

`catalog.py` lists all classes and imports each on demand, because its driver may not be installed.
"""
