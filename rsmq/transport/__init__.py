"""
Runs operations on Redis: URLs, connections, and what a failure means.
"""
