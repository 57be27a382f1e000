"""
Waiting receives: the schedule of waiters, and the watchers that wake them.
"""
