"""The JSON API: conversations, questions as server-sent events, verdicts, approvals, batches of other servers."""
