"""Real servers of each store: started here, killed, frozen and cut off; gone with the run.

They run on free ports of this machine and in directories of their own. Linux alone can say that
they die with whoever started them.
"""
