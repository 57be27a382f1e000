"""
Blocking receive: who waits for which queue, and what wakes them.
"""
