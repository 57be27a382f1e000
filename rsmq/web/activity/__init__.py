"""
What happens in many queues: what waits in them, and what was sent and received in the last hour.
"""
