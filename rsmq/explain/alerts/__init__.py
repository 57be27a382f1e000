"""
What is wrong with the queues, the worst first.
"""
