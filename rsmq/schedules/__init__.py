"""
Schedules: messages that are sent at set times, by whichever process is there.
"""
