"""
How ``Tasks`` sends calls, with each of the clients.
"""
