"""
What all commands of the program share: options, output, exit codes, completion.
"""
