"""
The management commands.
"""
