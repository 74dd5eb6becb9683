"""What the pages that a reader sees share: a policy without inline script or style, and what their scripts are told."""

from typing import Any

from agents.models import Deployment
from chat.models import FEEDBACK_MAX_CHARACTERS, FeedbackReason
from chat.rendering import tied
from faqs.validity import starter_questions


def content_policy(**directives: str) -> str:
    """Nothing but what comes from this site; `directives` are added (`img_src`), or take the place of these."""
    allowed = {
        "default_src": "'none'",
        "script_src": "'self'",
        "style_src": "'self'",
        "connect_src": "'self'",
        "form_action": "'none'",
        "base_uri": "'none'",
        **directives,
    }
    return "; ".join(f"{name.replace('_', '-')} {value}" for name, value in allowed.items())


def feedback_config() -> dict[str, Any]:
    """What the script of an answer's thumbs is told."""
    return {
        "maxComment": FEEDBACK_MAX_CHARACTERS,
        "feedbackReasons": [[reason.value, str(reason.label)] for reason in FeedbackReason],
    }


def suggestions(deployment: Deployment, most: int) -> list[tuple[str, str]]:
    """Each question as it is asked, and as it is shown."""
    return [(each, tied(each)) for each in starter_questions(deployment, most)]
