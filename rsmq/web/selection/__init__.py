"""
Selections of messages: what an action does is exactly what was shown before.
"""
