"""The verifier: checks whether a correct lock could have produced what the clients saw.

Clients contend while faults strike. The *history* records what the clients saw, and the *checker*
decides whether a single correct door could have produced this history. The clients are separate
processes on real servers, or simulated clients. The terms are Jepsen's.
"""
