"""Application configuration of `faqs`: lends the second key to the search for close stored questions."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class FaqsConfig(AppConfig):
    name = "faqs"
    verbose_name = _("Réponses validées")

    def ready(self) -> None:
        from faqs.agreement import compare_questions
        from knowledge.overlaps import register_agreement_check

        register_agreement_check(lambda first, second: compare_questions(first, second).agrees)
