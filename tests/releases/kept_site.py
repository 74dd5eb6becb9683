"""What is in the small site that is kept of each release, and how it is asked. Run by that release's own code (`keep`).

Only names that have stayed since 0.1.0 are used here. Of what ends by itself with time (remembered answers, links,
questions without an answer) nothing may: the kept site is asked years later.
"""

import uuid
from pathlib import Path
from typing import Any

SECRET_KEY = "of-the-kept-releases"
AGENT = "mairie"
USER, PASSWORD = "marianne", "liberte-egalite"
TITLE = "Horaires du marché"

DOCUMENT = """# Mairie

## Quels sont les horaires de la mairie ?

La mairie est ouverte du lundi au vendredi, de 8 heures 30 à 17 heures.

## Combien coûte une place de marché ?

Une place de marché coûte 4 euros le mètre.

## Salle des fêtes

La salle des fêtes se réserve à l'accueil de la mairie, deux mois à l'avance, contre une caution de 300 euros.
"""
VALIDATED = ("Où retirer un passeport ?", "À l'accueil de la mairie, sur rendez-vous.")
REMEMBERED = ("Quand passe le camion des encombrants ?", "Le premier mardi du mois.")
FROM_PASSAGE = ("Quelle caution pour louer la salle des fêtes ?", "La caution est de 300 euros.")
REFUSED = ("Quelle est la masse du boson de Higgs ?", "Qui a peint la Joconde ?")

#: The question, a piece of its answer, and the exit that gives it.
QUESTIONS = (
    ("Quels sont les horaires de la mairie ?", "8 heures 30", "direct_qa"),
    (VALIDATED[0], VALIDATED[1], "direct_qa"),
    ("Comment réserver la salle des fêtes ?", "deux mois à l'avance", "extractive"),
    (REMEMBERED[0], REMEMBERED[1], "memory_guard"),
    (FROM_PASSAGE[0], FROM_PASSAGE[1], "memory_guard"),
)


def fill(folder: Path) -> None:
    """Fill an empty, migrated database, in the process of the release's own `manage.py shell`."""
    from django.core.management import call_command

    from agents.models import Agent, RuntimeSettings

    RuntimeSettings(values={"memory_max_age_days": 36_500, "memory_threshold": 0.8}).save()
    call_command("create_agent", AGENT, name="Mairie", verbosity=0)
    document = folder / "mairie.md"
    document.write_text(DOCUMENT)
    call_command("add_documents", AGENT, str(document), verbosity=0)
    question, answer = VALIDATED
    call_command("add_faq", AGENT, question=question, answer=answer, verbosity=0)
    Agent.objects.filter(slug=AGENT).update(settings={"guard_rail_message": "Hors de notre domaine."})
    _people()
    _conversations()
    _memory()
    call_command("index_tools", verbosity=0)
    _one_row_in_every_table()


def _people() -> None:
    from django.contrib.auth import get_user_model

    from agents.models import Deployment
    from tests.factories import make_api_key
    from tools_registry.models import ToolOverride

    get_user_model().objects.create_superuser(USER, password=PASSWORD)
    make_api_key(Deployment.objects.get(slug=AGENT), name="Portail")
    ToolOverride.objects.update_or_create(
        tool_name="calculate", defaults={"description": "Calcule une redevance de marché."}
    )


def _conversations() -> None:
    from django.contrib.auth import get_user_model
    from django.core.management import call_command

    from agents.models import Deployment
    from chat.models import Turn, Verdict
    from chat.thread.verdicts import give_feedback
    from faqs.unanswered import tidy_unanswered
    from tests.factories import make_conversation, make_exchange

    deployment = Deployment.objects.get(slug=AGENT)
    owner = get_user_model().objects.get(username=USER)
    conversation = make_conversation(deployment, user=owner, title=TITLE)
    turn = make_exchange(conversation, "Le marché est-il ouvert le dimanche ?", "Oui, de 8 à 13 h.")
    give_feedback(turn, Verdict.UP)
    for question in REFUSED:
        call_command("ask", AGENT, question, json=True)
    given = Turn.objects.exclude(pk=turn.pk).order_by("started_at").first()
    if given is not None:
        give_feedback(given, Verdict.DOWN, comment="Pas la bonne page.")
    tidy_unanswered()


def _memory() -> None:
    from agents.models import Deployment
    from knowledge.models import Chunk
    from tests.factories import make_entry, source_of

    deployment = Deployment.objects.get(slug=AGENT)
    # The first one is for rows that say something against an entry.
    make_entry(deployment, "Qui tient le registre des doutes ?", "Personne.")
    make_entry(deployment, *REMEMBERED)
    chunk = Chunk.objects.get(content__contains="caution")
    make_entry(deployment, *FROM_PASSAGE, sources=[source_of(chunk)])


def _one_row_in_every_table() -> None:
    """Add a row to each table of ours that has none, so that an upgrade meets data in every table that it drops."""
    from django.apps import apps
    from django.db import DatabaseError, transaction

    names = ("agents", "knowledge", "faqs", "tools_registry", "chat")
    models = [model for name in names for model in apps.get_app_config(name).get_models()]
    for _round in range(3):  # a row may need one of another table first
        for model in models:
            if not model._default_manager.exists():
                try:
                    with transaction.atomic():
                        model._default_manager.create(**_values(model))
                except DatabaseError:
                    continue


def _values(model: Any) -> dict[str, Any]:
    """Return a value for each field of a model that needs one."""
    from django.db import models
    from django.utils import timezone

    samples = {
        models.BooleanField: True,
        models.IntegerField: 1,
        models.FloatField: 0.5,
        models.DateTimeField: timezone.now(),
        models.DateField: timezone.localdate(),
        models.BinaryField: b"\0" * 16,
        models.UUIDField: uuid.uuid4(),
        models.JSONField: {},
        models.CharField: "gardé",
        models.TextField: "gardé",
    }
    values = {}
    for field in model._meta.concrete_fields:
        if field.primary_key or field.has_default() or field.null:
            continue
        if field.is_relation:
            values[field.name] = field.related_model._default_manager.order_by("pk").first()
        elif field.choices:
            values[field.name] = field.choices[0][0]
        else:
            kind = next(kind for kind in type(field).__mro__ if kind in samples)
            values[field.name] = samples[kind]
    return values
