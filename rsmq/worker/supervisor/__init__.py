"""
The supervisor of worker processes, and the worker under it.
"""
