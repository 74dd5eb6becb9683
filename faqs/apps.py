"""Application configuration of `faqs`: its points come along at a rebuild, and its rows confirm every hit on them.

It lends the second key to the search for close stored questions.
"""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class FaqsConfig(AppConfig):
    name = "faqs"
    verbose_name = _("Réponses validées")

    def ready(self) -> None:
        from agents.history import register_restorer
        from faqs import answer_points, signals, validity  # noqa: F401
        from faqs.answers import restore_answer
        from faqs.memory import restore_entry
        from faqs.second_key.agreement import are_opposites, compare_questions
        from knowledge.indexing.points import register_point_source
        from knowledge.overlaps import register_agreement_check
        from knowledge.search import register_faq_check
        from knowledge.synonyms import register_conflict_check, register_forms_listener, register_opposition_check

        register_restorer("faqs.learnedresponse", restore_answer)
        register_restorer("faqs.cachedresponse", restore_entry)
        register_point_source(answer_points.plan_learned)
        register_faq_check(validity.confirm_learned)
        register_opposition_check(are_opposites)
        register_conflict_check(answer_points.find_conflicts)
        register_forms_listener(answer_points.settle_again)
        register_agreement_check(lambda first, second: compare_questions(first, second).agrees)
