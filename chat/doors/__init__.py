"""The edges: parse a request, call one verb, present the result. HTML is rendered here.

What all doors share: `questions` (a question comes in, its events go out) and `errors` (how an error is answered);
`urls` is the table of addresses. Imports every room but `staff` and `server`; nothing imports a door but `config`.
"""
