"""
The wire format of RSMQ: keys, fields, ids, limits and stored values.

Only this package and ``rsmq/lua`` spell the names of keys, fields and extensions. Modules of this
package do not communicate with Redis.
"""
