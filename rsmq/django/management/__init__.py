"""
Management commands, as Django finds them.
"""
