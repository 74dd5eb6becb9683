"""The OpenAI-compatible door: `/v1/chat/completions` and `/v1/models`, where a model is a deployment."""
