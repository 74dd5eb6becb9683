"""Texts that try to turn the desk against its reader, and a desk whose model obeys every one of them.

`corpus.jsonl` has one attempt a line: `via` says where the text stands (a document, a question, a tool's result or
description), `says` and `calls` what a model that obeys answers and asks for. What is measured is what the desk lets
through.
"""
