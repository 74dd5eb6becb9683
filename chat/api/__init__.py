"""What programs, and the scripts of the pages, call: socket, REST, batches and `/v1`.

Each entry point parses, calls one verb and presents the result; no rule of an answer is here. Imports every room but
`page` and `staff`.
"""
