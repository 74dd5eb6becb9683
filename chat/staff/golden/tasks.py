"""The Celery task of a run: a nudge that calls one verb. The truth is the row."""

from celery import shared_task
from django.conf import settings

from chat.staff.golden import runs


@shared_task(soft_time_limit=settings.JOB_SOFT_LIMIT_SECONDS, time_limit=settings.JOB_HARD_LIMIT_SECONDS)
def ask_golden_questions(run_id: int) -> None:
    runs.carry_out(run_id)
