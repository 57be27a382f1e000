"""
Checks the history of a run with faults: which messages were lost, doubled, reordered or invented.

It reads the history only, and imports nothing of the library. ``scripts/chaos --check`` calls it.
"""
