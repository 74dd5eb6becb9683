"""Questions of reference: sets of them, runs that ask them, and gates that keep what would make one of them fail from
going live.
"""
