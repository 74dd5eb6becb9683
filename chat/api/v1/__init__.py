"""`/v1`: a deployment as a model of any OpenAI-compatible client. Requests in, turns of the path out, in its forms."""
