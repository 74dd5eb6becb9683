"""The admin of the whole site: its first page and today's work, the page of a first agent, the sidebar. It looks into
every app.
"""
