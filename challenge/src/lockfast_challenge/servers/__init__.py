"""Real servers of each store: started here, killed, frozen, cut off, and removed with the run.

They run on free ports of this machine, in directories of their own. Only Linux guarantees that they
die with the process that started them.
"""
