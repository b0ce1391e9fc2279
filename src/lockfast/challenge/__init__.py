"""The verifier: whether what clients saw of a lock can have been one.

Clients contend while faults strike; the *history* is what they saw, and the *checker* says whether
one door can have done that. The clients are processes of their own, on real servers, or those of a
simulation; Jepsen has the words.
"""
