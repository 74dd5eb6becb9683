"""Who answers, and with which model: agents, deployments, effective settings, language models, background jobs.

Public: `models`, `effective`, `errors`, `jobs`, `llm`. Imports no other app.
"""
