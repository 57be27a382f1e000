"""
The parts that all commands share: options, output, exit codes, completion.
"""
