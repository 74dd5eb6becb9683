"""A question as it was typed → as it is looked up. What was typed stays what is stored and shown.

The story is `question.read_typed`: shouted text is put into small letters and words get their apostrophes, accents and
letters back (`spelling`), then greetings, thanks, signatures and indirect forms are taken off (`wrapping`).
`vocabulary` knows the words: those of an agent's documents first, then those of the languages. All pure; nothing here
changes a name, a number, a code or a negation.
"""
