"""
Producers, consumers and workers on servers that suffer faults, with a history of every call.

``scripts/chaos`` calls it; ``scripts/chaos_checker`` judges the history.
"""
