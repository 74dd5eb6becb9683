"""The name under which the migrations of 0.2.0, which never change, know `agents.branding`; nothing else imports it."""

from agents.branding import validate_accent as validate_accent
