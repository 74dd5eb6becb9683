"""Acronyms that an agent's documents spell out, and synonyms of its staff: found, kept, and used to read a question
otherwise.

Public: `readings` (pure: what a table of forms makes of a text) and `stored` (an agent's table, remembered, and what
keeps it). `finding` reads texts. Written by the indexing of documents and the admin; read by the path of a question.
"""
