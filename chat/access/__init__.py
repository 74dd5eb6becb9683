"""Who may open what, and how often: `visitors` (who reads), `permissions` (what is theirs), rate limits, sign-in.

Imports the ground only. Every entry point asks here; nothing here answers a request by itself.
"""
