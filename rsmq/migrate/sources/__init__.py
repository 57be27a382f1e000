"""
The systems that messages are moved from, one module each.
"""
