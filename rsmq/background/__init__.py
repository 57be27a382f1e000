"""
Work that a process does beside its own: a task during a block, and an HTTP server in a thread.
"""
