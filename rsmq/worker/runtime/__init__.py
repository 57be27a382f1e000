"""
The inside of a running worker.
"""
