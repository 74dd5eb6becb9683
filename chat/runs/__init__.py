"""Running turns: their tasks (`runner`), event logs, readers (`following`), and the work after an answer."""
