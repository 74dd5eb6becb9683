"""Running turns: their tasks and readers (`runner`), their event logs, and the work after an answer (`afterwards`)."""
