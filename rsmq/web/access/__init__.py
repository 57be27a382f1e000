"""
Rights of callers: users, tokens and scopes; Host and Origin; limits on attempts.
"""
