"""Canaries are invented people whose presence in one run is decided by coins, and guessed from what was released.

canary_guesses   what right guesses prove, from a single run
canary_tables    canaries among invented rows of a policy's table
"""
