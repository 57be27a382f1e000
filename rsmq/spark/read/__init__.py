"""
Reading queues as frames, without receiving.
"""
