"""
Webhooks without the worker: targets, addresses, signatures, the HTTP client, and the breaker.
"""
