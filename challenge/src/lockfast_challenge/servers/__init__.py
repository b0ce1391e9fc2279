"""Real servers of each store, which tests and challenges start, kill, freeze and cut off.

The servers run on free ports of this machine, in their own directories, and are removed with the
run. Only Linux guarantees that they die with the process that started them.
"""
