"""The OpenAI-compatible door: `/v1/chat/completions` and `/v1/models`, where a model is a deployment.

`requests` says what is accepted of a request, `wire` what goes back, `turns` how a request becomes a turn of the one
path (`chat.turn.path`, through `chat.runs.runner`), and `views` is the edge. Nothing here answers a question by itself.
"""
