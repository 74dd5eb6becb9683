"""An earlier version of a validated answer, put back: one more change of the answer, with a version of its own."""

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction

from faqs.answers.versions import VERSIONED
from faqs.answers.writing import save_learned, validate
from faqs.models import AnswerVersion, LearnedResponse, LearnedStatus, WrittenHow


def restore_version(version: AnswerVersion, *, by: AbstractBaseUser | None) -> LearnedResponse:
    """Make the answer what it was. A review date that has passed since does not keep a valid version out of service.

    Raises `AnswerRejectedError` where the settings no longer allow its texts.
    """
    with transaction.atomic():
        response = LearnedResponse.objects.select_for_update().get(pk=version.response_id)
        for name in VERSIONED:
            setattr(response, name, getattr(version, name))
        if response.status == LearnedStatus.VALID:
            validate(response)
        save_learned(response, phrasings=version.phrasings, how=WrittenHow.RESTORED, by=by)
    return response
