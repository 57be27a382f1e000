"""
Control of workers: their list, orders to them, and reports of what they run.
"""
