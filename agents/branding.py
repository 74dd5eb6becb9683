"""A deployment's branding: words (one language stands in for the other), logo, and a colour made readable."""

import base64
import hashlib
import io
import re
from typing import Any

from django.core.exceptions import ValidationError
from django.utils.translation import get_language
from django.utils.translation import gettext_lazy as _

#: The most light (Y of XYZ) of a colour on light paper: 4.5 to 1 (WCAG 2.2, AA) with `--sunken` of `chat.css`.
MOST_LIGHT = 0.138
#: Of the colour in that of the dark theme, in per cent, the rest white: so black itself can be read there.
DARK_SHARE = 40
#: What staff may upload as a logo, and what is kept of it: twice the pixels that it is shown in at most.
LOGO_FORMATS = ("PNG", "JPEG", "WEBP")
LOGO_UPLOAD_BYTES = 2_000_000
LOGO_UPLOAD_PIXELS = 16_000_000
LOGO_SIZE = (480, 160)


def style_of(accent: str) -> str:
    """The style sheet for a colour, empty without one; it holds no text of users."""
    if not accent:
        return ""
    share = f"min(1,{MOST_LIGHT}/y)"
    return (
        f":root{{--accent:light-dark(color(from {accent} xyz calc(x*{share}) calc(y*{share}) calc(z*{share})),"
        f"color-mix(in srgb,{accent} {DARK_SHARE}%,white));"
        "--accent-ink:light-dark(#fff,#000);--accent-soft:color-mix(in srgb,var(--accent) 14%,var(--surface))}"
    )


def style_source(style: str) -> str:
    """The `style-src` of a page's content security policy: this site, and this style sheet."""
    if not style:
        return "'self'"
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"'self' 'sha256-{digest}'"


def validate_accent(text: str) -> None:
    """Require a colour and nothing else: it stands in a style sheet."""
    if not re.fullmatch(r"#[0-9a-fA-F]{6}", text):
        raise ValidationError(_("Une couleur s’écrit #rrvvbb, par exemple #17565c."))


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
