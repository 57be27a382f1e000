"""
Where a worker receives: the client, its namespaces or cells, and the workers that have died there.
"""
