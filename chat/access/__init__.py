"""Who may open what, and how often: `visitors` (identity), `permissions` (rights), `rate_limits`, `sign_in`.

Imports the shared modules only. Every entry point calls this package; no module of it answers a request itself.
"""
