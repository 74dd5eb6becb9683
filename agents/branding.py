"""A deployment's branding: its words (one language replaces a missing other), logo, and one colour, which the dark
theme has lightened until it is readable.
"""

import base64
import hashlib
import io
import re
from typing import Any

from django.core.exceptions import ValidationError
from django.utils.translation import get_language
from django.utils.translation import gettext_lazy as _

#: What words need on their paper (WCAG 2.2, AA).
LEAST_CONTRAST = 4.5
#: The papers of `chat.css` that the accent stands on, the worst of each theme.
LIGHT_PAPER, DARK_PAPER = "#ece7db", "#243031"
#: Of the colour in that of the dark theme, in per cent, the rest white: so black itself can be read there.
DARK_SHARE = 40
#: What staff may upload as a logo, and what is kept of it: twice the pixels that it is shown in at most.
LOGO_FORMATS = ("PNG", "JPEG", "WEBP")
LOGO_UPLOAD_BYTES = 2_000_000
LOGO_UPLOAD_PIXELS = 16_000_000
LOGO_SIZE = (480, 160)


def contrast(one: str, other: str) -> float:
    """The contrast of two colours `#rrggbb`, from 1 to 21 (WCAG)."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def style_of(accent: str) -> str:
    """The style sheet for a colour, empty without one; it holds no text of users."""
    if not accent:
        return ""
    return (
        f":root{{--accent:light-dark({accent},color-mix(in srgb,{accent} {DARK_SHARE}%,white));"
        "--accent-ink:light-dark(#fff,#000);--accent-soft:color-mix(in srgb,var(--accent) 14%,var(--surface))}"
    )


def style_source(style: str) -> str:
    """The `style-src` of a page's content security policy: this site, and this style sheet."""
    if not style:
        return "'self'"
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"'self' 'sha256-{digest}'"


def validate_accent(text: str) -> None:
    """Require a colour that is readable on the light theme."""
    if not re.fullmatch(r"#[0-9a-fA-F]{6}", text):
        raise ValidationError(_("Une couleur s’écrit #rrvvbb, par exemple #17565c."))
    found = contrast(text, LIGHT_PAPER)
    if found < LEAST_CONTRAST:
        raise ValidationError(
            _("Trop claire pour être lue : contraste de %(found)s avec le papier, il en faut %(least)s."),
            params={"found": f"{found:.1f}", "least": LEAST_CONTRAST},
        )


def logo_png(file: Any) -> bytes:
    """An uploaded picture as a PNG that fits `LOGO_SIZE`, without its metadata. Raises `ValidationError`."""
    from PIL import Image, ImageOps  # only where staff upload one

    if file.size > LOGO_UPLOAD_BYTES:
        raise ValidationError(_("Ce logo est trop lourd : 2 Mo au plus."))
    try:
        with Image.open(file, formats=LOGO_FORMATS) as picture:
            if picture.width * picture.height > LOGO_UPLOAD_PIXELS:
                raise ValidationError(_("Ce logo est trop grand : 16 millions de pixels au plus."))
            logo = ImageOps.exif_transpose(picture).convert("RGBA")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValidationError(_("Un logo est une image PNG, JPEG ou WebP.")) from error
    logo.thumbnail(LOGO_SIZE)
    png = io.BytesIO()
    logo.save(png, "PNG", optimize=True)
    return png.getvalue()


def worded(french: str, english: str) -> str:
    """The text in the reader's language, or the other."""
    first, second = (english, french) if get_language() == "en" else (french, english)
    return first or second


def _luminance(colour: str) -> float:
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    ]
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
