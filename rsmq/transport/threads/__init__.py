"""
The callers of the synchronous client: connections of threads.
"""
