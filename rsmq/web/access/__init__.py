"""
Who may do what: users, tokens and scopes; Host and Origin; limits on attempts.
"""
