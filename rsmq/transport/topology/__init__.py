"""
Several servers that serve one set of keys: Redis Cluster, and Sentinel with a primary.
"""
