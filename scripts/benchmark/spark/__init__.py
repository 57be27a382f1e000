"""The program behind ``scripts/bench-spark``."""
