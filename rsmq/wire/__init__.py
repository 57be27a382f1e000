"""
The wire format of RSMQ: keys, fields, ids, limits and stored values.

Nothing outside this package and ``rsmq/lua`` spells the name of a key, a field or an extension.
Nothing in here talks to Redis.
"""
