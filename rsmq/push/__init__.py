"""
Webhooks: targets, addresses, signatures, answers, the breaker, and the listener of a worker.
"""
