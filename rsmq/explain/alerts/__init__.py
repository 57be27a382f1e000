"""
The faults of the queues, the worst first.
"""
