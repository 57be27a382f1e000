"""
The parts of webhooks that need no worker: targets, addresses, signatures, answers, the breaker.
"""
