"""An agent as one file: everything it has, to be kept, moved to another site, or begun anew from.

A zip with `manifest.json` (format, version, what is inside), one JSON file for each part and the originals of documents
under numbers; names of documents stand in the JSON, so that no path of an archive is ever one of a disk. Each app
registers its parts (`register_agent_part`). Secrets, conversations, the memory and vectors are in no part. The same
agent gives the same bytes.

An import makes a new agent and overwrites nothing: where a name is taken, it says so and leaves what is there.
"""

import json
import lzma
import zipfile
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, Any

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.files.base import ContentFile
from django.core.validators import validate_slug
from django.db import DataError, IntegrityError, transaction
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.errors import ApplicationError
from agents.face import logo_png
from agents.models import Agent, Audience, Deployment, Logo, RuntimeSettings
from agents.staff.audit import acting
from agents.texts import storable_value

FORMAT, VERSION = "repondant-agent", 1
_MANIFEST = "manifest.json"
#: What reading an archive raises that is damaged, or written to do damage.
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    NotImplementedError,
    RuntimeError,
    OSError,
    EOFError,
    UnicodeError,
)
#: What rows raise that are none of ours, or that this site's database refuses.
_UNFIT = (KeyError, TypeError, ValueError, AttributeError, ValidationError, IntegrityError, DataError)
#: Each entry of an archive bears the same moment: the same agent gives the same bytes.
_MOMENT = (1980, 1, 1, 0, 0, 0)


class AgentFileError(ApplicationError):
    """What is given is no file of an agent, or holds more than may be read."""

    code = "agent_file"
    status = 400
    default_message = gettext_lazy("Ce n’est pas un fichier d’agent.")


@dataclass(slots=True)
class Taken:
    """What an import does, or would do: counts by part, and in words what was left out."""

    agent: Agent | None = None
    counts: dict[str, int] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)


class Originals:
    """The files of documents within an archive, by number."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self.written: list[str] = []

    def add(self, data: bytes) -> str:
        name = f"files/{len(self.written) + 1:06d}"
        _write(self._archive, name, data)
        self.written.append(name)
        return name

    def read(self, name: object) -> bytes:
        if not isinstance(name, str) or not name.startswith("files/"):
            raise AgentFileError(f"not a file of a document: {name!r}")
        return _read(self._archive, name, settings.MAX_DOCUMENT_BYTES)


Dump = Callable[[Agent, Originals], list[dict[str, Any]]]
Load = Callable[[Agent, list[dict[str, Any]], Originals, Taken, Any], None]


@dataclass(frozen=True, slots=True)
class AgentPart:
    """Rows of one kind. `dump` gives them as JSON in a fixed order; `load` makes them, in the agent that was made, and
    notes in `Taken` what it left out. `check` says, before anything is written, what would be.
    """

    name: str
    title: str | Promise
    dump: Dump
    load: Load
    check: Callable[[list[dict[str, Any]]], list[str]] = lambda _rows: []


_parts: dict[str, AgentPart] = {}


def register_agent_part(part: AgentPart) -> None:
    """Parts are written and read in the order in which apps are loaded."""
    _parts[part.name] = part


def part_titles() -> dict[str, str]:
    return {"deployments": str(_("Déploiements")), **{p.name: str(p.title) for p in _parts.values()}}


# --- Export ----------------------------------------------------------------------------------------------------------


def export_agent(agent: Agent, target: IO[bytes]) -> None:
    """Write an agent's file. Raises `AgentFileError` where the original of a document is not there."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        originals = Originals(archive)
        parts = {"agent": [_settings_of(agent)], "deployments": _deployments_of(agent)}
        for part in _parts.values():
            parts[part.name] = part.dump(agent, originals)
        for name, rows in parts.items():
            _write(archive, f"{name}.json", _as_json(rows))
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "slug": agent.slug,
            "parts": {name: len(rows) for name, rows in parts.items()},
            "files": len(originals.written),
        }
        _write(archive, _MANIFEST, _as_json(manifest))


def _settings_of(agent: Agent) -> dict[str, Any]:
    names = ["name", "description", "indexing_method", *RuntimeSettings.knobs()]
    return {name: getattr(agent, name) for name in names}


_DEPLOYMENT = "slug name welcome suggestions audience allowed_origins config_overlay".split()
#: Of a deployment's face; files of an older release have none of it.
_FACE = "name_en welcome_en organisation accent notice notice_en legal_url".split()


def _deployments_of(agent: Agent) -> list[dict[str, Any]]:
    rows = agent.deployments.order_by("slug").select_related("logo").prefetch_related("groups")
    return [
        {
            **{name: getattr(row, name) for name in _DEPLOYMENT + _FACE},
            "logo": b64encode(row.logo.png).decode() if row.logo else "",
            "groups": sorted(group.name for group in row.groups.all()),
        }
        for row in rows
    ]


def _as_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True).encode()


def _write(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(name, _MOMENT)
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, data)


# --- Import ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class AgentFile:
    """A file that was opened and found well: what is in it, and what taking it in would do."""

    archive: zipfile.ZipFile
    slug: str
    parts: dict[str, list[dict[str, Any]]]

    def preview(self, slug: str = "") -> Taken:
        """What `import_agent` would do; nothing is written. Raises `AgentFileError` where the agent's name is taken."""
        slug = slug or self.slug
        _check_free(slug)
        taken = Taken(counts={name: len(rows) for name, rows in self.parts.items()})
        for row in self.parts["deployments"]:
            if Deployment.objects.filter(slug=str(row.get("slug"))).exists():
                taken.notices.append(_already(str(row.get("slug"))))
        try:
            for part in _parts.values():
                taken.notices += part.check(self.parts.get(part.name, []))
        except _UNFIT as error:
            raise AgentFileError(f"{type(error).__name__}: {error}") from error
        taken.notices += [
            _("Partie inconnue, laissée : %(name)s.") % {"name": name}
            for name in self.parts
            if name not in _parts and name not in ("agent", "deployments")
        ]
        return taken


def open_agent_file(source: Any) -> AgentFile:
    """Check an open file before anything of it is taken. Raises `AgentFileError`."""
    try:
        archive = zipfile.ZipFile(source)
        _check_bounds(archive)
        manifest = _json(archive, _MANIFEST)
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise AgentFileError("no manifest of ours")
        if manifest.get("version") != VERSION:
            text = _("Ce fichier est d’une version %(version)s que ce site ne lit pas.")
            given = str(manifest.get("version"))[:20]
            raise AgentFileError("version", public_message=text % {"version": given})
        names = manifest.get("parts")
        if not isinstance(names, dict) or not {"agent", "deployments"} <= set(names):
            raise AgentFileError("parts")
        parts = {str(name): _rows(archive, str(name)) for name in names}
        if len(parts["agent"]) != 1:
            raise AgentFileError("not one agent")
        return AgentFile(archive, str(manifest.get("slug", "")), parts)
    except _BROKEN as error:
        raise AgentFileError(f"{type(error).__name__}: {error}") from error


def import_agent(file: AgentFile, *, slug: str = "", by: Any = None) -> Taken:
    """Make a new agent of a file. Where a part fails, nothing of it stays. Raises `AgentFileError`."""
    taken = file.preview(slug)
    originals = Originals(file.archive)
    with acting(by, origin="import"):
        agent = taken.agent = _make_agent(slug or file.slug, file.parts["agent"][0])
        try:
            _load_deployments(agent, file.parts["deployments"])
            for part in _parts.values():
                part.load(agent, file.parts.get(part.name, []), originals, taken, by)
        except _UNFIT as error:
            agent.delete()
            raise AgentFileError(f"{type(error).__name__}: {error}") from error
        except BaseException:
            agent.delete()
            raise
    return taken


def _make_agent(slug: str, values: dict[str, Any]) -> Agent:
    known = {"name", "description", "indexing_method", *RuntimeSettings.knobs()}
    try:
        agent = Agent(slug=slug, **{name: values[name] for name in known & set(values)})
        agent.full_clean()
        agent.save()
    except _UNFIT as error:
        reasons = " ".join(error.messages) if isinstance(error, ValidationError) else ""
        raise AgentFileError(str(error), public_message=reasons or None) from error
    return agent


def _load_deployments(agent: Agent, rows: list[dict[str, Any]]) -> None:
    """They come switched off: staff publish. A group that this site has not is left out, and so lets nobody in."""
    with transaction.atomic():
        for row in rows:
            if Deployment.objects.filter(slug=row["slug"]).exists():
                continue
            values = {n: row[n] for n in _DEPLOYMENT} | {n: row[n] for n in _FACE if n in row}
            made = Deployment(agent=agent, is_active=False, **values)
            if row.get("logo"):
                png = b64decode(row["logo"], validate=True)
                # Read as an upload is: a file may come from anywhere.
                made.logo = Logo.of(logo_png(ContentFile(png)))
            made.full_clean()
            made.save()
            if row["audience"] == Audience.GROUPS:
                made.groups.set(Group.objects.filter(name__in=row["groups"]))


def _check_free(slug: str) -> None:
    try:
        validate_slug(slug)
    except ValidationError as error:
        text = _("Donnez à l’agent un identifiant : lettres, chiffres et tirets.")
        raise AgentFileError("slug", public_message=text) from error
    if Agent.objects.filter(slug=slug).exists():
        text = _("Il y a déjà un agent « %(slug)s » : choisissez un autre identifiant.")
        raise AgentFileError("exists", public_message=text % {"slug": slug})


def _already(slug: str) -> str:
    return _("Il y a déjà un déploiement « %(slug)s » : celui du fichier est laissé.") % {"slug": slug}


def _check_bounds(archive: zipfile.ZipFile) -> None:
    """By what the archive declares; `_read` holds it to that."""
    entries = archive.infolist()
    names = {entry.filename for entry in entries}
    too_many = len(entries) > settings.AGENT_FILE_MAX_ENTRIES or len(names) != len(entries)
    total = sum(entry.file_size for entry in entries)
    packed = sum(entry.compress_size for entry in entries)
    is_bomb = total > settings.AGENT_FILE_MAX_RATIO * max(packed, 1_000_000)
    if too_many or total > settings.AGENT_FILE_MAX_BYTES or is_bomb:
        text = _("Ce fichier contient plus qu’un fichier d’agent ne peut contenir.")
        raise AgentFileError("beyond bounds", public_message=text)


def _read(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    try:
        with archive.open(name) as entry:
            data = entry.read(limit + 1)
    except (KeyError, *_BROKEN) as error:
        raise AgentFileError(f"{name}: {error}") from error
    if len(data) > limit:
        raise AgentFileError(f"{name}: more than {limit} bytes")
    return data


def _json(archive: zipfile.ZipFile, name: str) -> Any:
    try:
        value = json.loads(_read(archive, name, settings.AGENT_FILE_MAX_PART_BYTES))
        is_storable = storable_value(value) == value
    except (ValueError, RecursionError) as error:
        raise AgentFileError(f"{name}: no JSON") from error
    if not is_storable:
        raise AgentFileError(f"{name}: a text with half a character, or with a NUL")
    return value


def _rows(archive: zipfile.ZipFile, name: str) -> list[dict[str, Any]]:
    rows = _json(archive, f"{name}.json")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise AgentFileError(f"{name}: no rows")
    return rows
