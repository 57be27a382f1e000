"""
Operations of the Spark source and sink.
"""
