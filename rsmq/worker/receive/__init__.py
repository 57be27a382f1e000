"""
The receives of a worker: which queues, how many messages, and when.
"""
