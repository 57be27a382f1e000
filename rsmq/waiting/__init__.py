"""
Waiting receives: the schedule of waiters, the watchers that wake them, and loops over receives.
"""
