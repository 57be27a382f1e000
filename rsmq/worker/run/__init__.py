"""
The calls of handlers: the run queue, threads, tasks, and quarantine.
"""
