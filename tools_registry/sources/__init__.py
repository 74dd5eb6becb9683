"""Where tools come from beside the code: MCP servers and OpenAPI documents, as rows that staff manage."""
