"""What was said, as rows: the only reader and writer of turns, messages, batches and verdicts.

Synchronous; each verb is one short transaction and waits for no network. Imports `access` and the ground.
"""
