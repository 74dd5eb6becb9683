"""What was said, as rows: the only writer of turns, messages, batches and verdicts. Synchronous, without network."""
