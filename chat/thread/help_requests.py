"""A reader asks a person about an answer, and a person of the staff answers: in the thread, and by mail.

A request hangs on its turn: it goes with the conversation, and is shown on whatever branch is. Its mail is due from the
transaction of the answer on, until a server takes or refuses it; a process that is killed between the server's word and
its own sends it again, under the same Message-ID. No address stands in a job, an error or the log.
"""

import logging
import smtplib
from collections.abc import Iterator
from datetime import timedelta
from email.utils import parseaddr

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage
from django.core.validators import validate_email
from django.db import transaction
from django.utils import timezone, translation
from django.utils.translation import gettext as _

from agents.database import short_write
from agents.effective import effective_config
from agents.jobs import Held, Outcome, enqueue
from agents.models import OPEN_JOBS, Job, JobKind, JobStatus
from agents.retention import delete_in_batches
from chat.errors import HelpRefusedError, InvalidMessageError
from chat.models import Conversation, HelpRequest, MailState, RequestStatus, Turn
from chat.thread.messages import hold_conversation

#: Requests within a day, of one person or session, and to one deployment.
HELP_PER_PERSON, HELP_PER_DEPLOYMENT = 5, 200
#: A mail that no server takes is given up after so long.
MAIL_DAYS = 3
#: What staff may still take, answer or close.
OPEN_REQUESTS = (RequestStatus.WAITING, RequestStatus.TAKEN)

logger = logging.getLogger(__name__)


def ask_a_person(turn: Turn, *, address: str) -> HelpRequest:
    """Store a request, or return the one there is. Raises `HelpRefusedError`, `InvalidMessageError` (the address)."""
    own = turn.conversation
    if not effective_config(own.deployment).ask_a_person:
        raise HelpRefusedError
    address = "" if own.user_id or not settings.HAS_MAIL else address.strip()
    try:
        if address:
            validate_email(address)
    except ValidationError as error:
        said = _("Cette adresse électronique n’est pas valide.")
        raise InvalidMessageError("not an address", public_message=said) from error
    asker = {"turn__conversation__user": own.user_id, "turn__conversation__visitor": own.visitor}
    desk = {"turn__conversation__deployment": own.deployment_id}
    with short_write():
        hold_conversation(own.pk)
        if (found := HelpRequest.objects.filter(turn=turn).first()) is not None:
            return found
        today = HelpRequest.objects.filter(created_at__gt=timezone.now() - timedelta(days=1))
        for whose, most in ((asker, HELP_PER_PERSON), (desk, HELP_PER_DEPLOYMENT)):
            if today.filter(**whose).count() >= most:
                said = _("Trop de demandes ont été envoyées aujourd’hui. Réessayez demain.")
                raise HelpRefusedError("too many requests", public_message=said)
        language = translation.get_language() or settings.LANGUAGE_CODE
        return HelpRequest.objects.create(turn=turn, address=address, language=language)


def settle(request: HelpRequest, by: AbstractBaseUser | None, status: RequestStatus, **columns: object) -> bool:
    """Take or close a request that is open; `False` where it is over. A closed one is never mailed."""
    if status == RequestStatus.CLOSED:
        columns["address"] = ""
    still_open = HelpRequest.objects.filter(pk=request.pk, status__in=OPEN_REQUESTS)
    return bool(still_open.update(status=status, owner=by, **columns))


def answer_request(request: HelpRequest, text: str, *, by: AbstractBaseUser | None, link: str) -> bool:
    """Give a person's answer, once, and have it mailed to whoever left an address; `False` where the request is over."""
    now, mail = timezone.now(), MailState.DUE if settings.HAS_MAIL and request.recipient else ""
    with short_write():
        # Its conversation first, as by whoever deletes it; retention counts from the last thing said.
        Conversation.objects.filter(pk=request.turn.conversation_id).update(updated_at=now)
        is_given = settle(request, by, RequestStatus.ANSWERED, answer=text, answered_at=now, link=link, mail=mail)
        if not is_given:
            transaction.set_rollback(True)
        else:
            # A summary from before does not hold it.
            Turn.objects.filter(conversation=request.turn.conversation_id).exclude(summary="").update(summary="")
        if is_given and mail:
            enqueue(JobKind.HELP_MAIL, key=str(request.pk))
    return is_given


def mail_answer(held: Held) -> Outcome:
    """Mail the answer to the request that the job's key names, where it still is due."""
    due = HelpRequest.objects.filter(pk=held.job.key, mail=MailState.DUE)
    request = due.select_related("turn__conversation__user", "turn__conversation__deployment").first()
    if request is None:
        return Outcome()
    state = _send(request) if settings.HAS_MAIL and request.recipient else MailState.FAILED
    logger.info("mail of request %s: %s", request.pk, state)
    if state == MailState.DUE:
        if due.filter(answered_at__gt=timezone.now() - timedelta(days=MAIL_DAYS)).exists():
            reason = _("Le serveur de courrier ne prend pas ce message pour l’instant.")
            return Outcome(JobStatus.FAILED, error=reason, retry_because=reason)
        state = MailState.FAILED
    due.update(mail=state, address="")
    return Outcome()


def _send(request: HelpRequest) -> MailState:
    """Hand the mail to the server: sent, refused for good, or still due."""
    try:
        validate_email(request.recipient)
        _mail(request).send()
    except ValidationError:
        is_final = True
    except smtplib.SMTPRecipientsRefused as error:
        is_final = all(code >= 500 for code, _said in error.recipients.values())
    except smtplib.SMTPDataError as error:
        is_final = error.smtp_code >= 500
    except Exception as error:  # noqa: BLE001  # its text may hold the address, and a job would show it
        logger.warning("mail of request %s: %s", request.pk, type(error).__name__)
        is_final = False
    else:
        return MailState.SENT
    return MailState.FAILED if is_final else MailState.DUE


def _mail(request: HelpRequest) -> EmailMessage:
    """The answer and the way back. None of the visitor's words: the address may be a stranger's."""
    desk = " ".join(request.turn.conversation.deployment.shown_name.split())
    sender = parseaddr(settings.DEFAULT_FROM_EMAIL)[1].rpartition("@")[2]
    headers = {"Message-ID": f"<help.{request.turn_id}@{sender}>", "Auto-Submitted": "auto-generated"}
    with translation.override(request.language):
        parts = [request.answer]
        if request.link:
            parts.append(_("Votre conversation : %(link)s") % {"link": request.link})
        said = _(
            "Cette adresse a été laissée avec une question à « %(desk)s ». Si ce n’était pas vous, oubliez ce message."
        )
        subject = _("Réponse à votre demande – %(desk)s") % {"desk": desk}
    return EmailMessage(subject, "\n\n".join([*parts, said % {"desk": desk}]), to=[request.recipient], headers=headers)


def enqueue_due_mails() -> int:
    """Queue the due mails that have no open job: a killed process took it along, or it used up its tries; how many."""
    queued = Job.objects.filter(kind=JobKind.HELP_MAIL, status__in=OPEN_JOBS).values_list("key", flat=True)
    due = HelpRequest.objects.filter(mail=MailState.DUE).values_list("pk", flat=True)
    lost = {str(pk) for pk in due} - set(queued)
    for key in lost:
        enqueue(JobKind.HELP_MAIL, key=key)
    return len(lost)


def delete_expired() -> Iterator[int]:
    """Delete old requests without an answer, and the addresses of the others: their answers stay in the thread."""
    limit = timezone.now() - timedelta(days=settings.UNANSWERED_RETENTION_DAYS)
    HelpRequest.objects.filter(created_at__lt=limit).exclude(address="").exclude(mail=MailState.DUE).update(address="")
    yield from delete_in_batches(HelpRequest.objects.filter(created_at__lt=limit, answered_at=None))
