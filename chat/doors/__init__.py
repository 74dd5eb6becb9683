"""The edges: parse a request, call one verb, present the result. HTML is rendered here.

Imports every room but `staff` and `server`; nothing imports a door but `config`.
"""
