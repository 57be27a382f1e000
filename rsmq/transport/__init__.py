"""
Execution of operations on Redis: URLs, connections, retries, cancellation and signals.
"""
