"""
The options, attributes and facts that a person may pass, see or store, each declared once.

The faces of the library follow from them.
"""
