"""What the pages that a reader sees share: a policy without inline script or style, and the first questions to ask."""

from agents.models import Deployment


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


def suggestions(deployment: Deployment | None, most: int) -> list[str]:
    lines = deployment.suggestions.splitlines() if deployment else []
    return [line.strip() for line in lines if line.strip()][:most]
