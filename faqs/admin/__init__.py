"""The admin of validated answers, unanswered questions and the memory. Nothing outside this app imports it."""

# Django imports `faqs.admin`; importing these registers their pages.
from faqs.admin import answers, memory, unanswered  # noqa: F401
