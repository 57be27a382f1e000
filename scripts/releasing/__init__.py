"""A release: its checks, its files and their bill of materials; ``scripts/release`` runs it."""
