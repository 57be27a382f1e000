"""
Writing frames to queues.
"""
