"""The admin of the whole site: its first page, the page of a first agent, the sidebar. It looks into every app."""
