"""Application configuration of `faqs`: its points come along at a rebuild, and its rows confirm every hit on them.

It lends the second key to the search for close stored questions.
"""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class FaqsConfig(AppConfig):
    name = "faqs"
    verbose_name = _("Réponses validées")

    def ready(self) -> None:
        from faqs import signals  # noqa: F401
        from faqs.answer_points import AnswersOfFaqs
        from knowledge.search import register_answers

        register_answers(AnswersOfFaqs())
