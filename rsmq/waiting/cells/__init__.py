"""
Receives that wait in all cells of a set.
"""
