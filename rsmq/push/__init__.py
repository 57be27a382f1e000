"""
Subscribers of queues, and the processes that push to them.
"""
