"""
The streaming source: batches of leased messages, and their acknowledgement.
"""
