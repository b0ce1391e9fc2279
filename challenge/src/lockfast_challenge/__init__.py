"""The verifier: checks whether what clients saw can have come from a correct lock.

Clients contend while faults strike. The *history* records what the clients saw, and the *checker*
decides whether one door can have produced it. The clients are separate processes on real servers,
or simulated clients. The terms are Jepsen's.
"""
