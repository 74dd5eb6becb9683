"""Who may open what, and how often: `visitors` (who reads), `permissions` (what is theirs), `keys` (programs), rate
limits, sign-in.

Imports the ground only. Every door asks here; nothing here answers a request by itself.
"""
