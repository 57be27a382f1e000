"""
Handlers in child processes.
"""
