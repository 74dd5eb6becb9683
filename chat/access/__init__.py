"""Who may open what, and how often: rights, keys, visitors, rate limits, sign-in.

Imports the ground only. Every door asks here; nothing here answers a request by itself.
"""
