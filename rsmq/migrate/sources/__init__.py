"""
The systems from which messages are migrated, one module each.
"""
