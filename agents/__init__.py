"""Who answers, with which engine: agents, deployments, effective settings, language models.

Public: `models`, `effective`, `exceptions`, `llm`. Imports no other app.
"""
