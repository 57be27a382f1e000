"""
Search in the messages of a queue: the language of filters, and the steps of a search.

    json.customer.country:DE rc>=3 body:"express"

Nothing is received or changed. The HTTP API uses it; it has no I/O of its own.
"""
