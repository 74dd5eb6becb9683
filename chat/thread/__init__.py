"""What was said, as rows: the only writer of turns, messages, batches and verdicts, and the reader of what a model is
told.

Synchronous; each verb is one short transaction and waits for no network. Imports `access` and the ground.
"""
