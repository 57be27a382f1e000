"""
Sets of cells: one logical queue over several slots of a cluster, or several servers.
"""
