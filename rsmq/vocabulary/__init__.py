"""
What a person may pass, see or store, declared once. The faces of the library follow from it.
"""
