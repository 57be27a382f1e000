"""Producers and consumers that are processes with ledgers of their own, and a checker of these."""
