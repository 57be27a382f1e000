"""
The dashboard.
"""
