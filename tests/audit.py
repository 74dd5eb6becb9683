"""Known vulnerabilities and licences of everything that is pinned.

    python -m tests.audit

Licences are read from the metadata of what is installed and held against a list of those this project may ship with.
Known vulnerabilities are asked of the OSV database (`AUDIT_URL` names another one that speaks the same). Ends with 1
where something is found, with 2 where the database did not answer, which is said: what was not asked is not known to be
well.
"""

import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from urllib.request import Request, urlopen

PINS = Path(__file__).parents[1] / "constraints.txt"
DATABASE = "https://api.osv.dev"
#: One query is answered in a second or two; a machine without a way out should say so soon.
TIMEOUT_SECONDS = 15.0
#: By the words that licences are named with in metadata. Copyleft of whole programs (GPL, AGPL) is not among them.
ALLOWED = re.compile(
    r"MIT|BSD|Apache|ISC\b|PSF|Python[- ]Software[- ]Foundation|Python-2\.0|MPL|Mozilla Public|LGPL|Lesser General"
    r"|Unlicense|CC0|0BSD|Zlib|HPND|CNRI|Public Domain|BlueOak",
    re.IGNORECASE,
)
_REFUSED = re.compile(r"(?<!L)(?<!Lesser )\bA?GPL|(?<!Lesser )General Public", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Pin:
    name: str
    version: str


def pins(text: str) -> list[Pin]:
    """The packages that a file of constraints pins."""
    found = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", text, re.MULTILINE)
    return [Pin(name, version) for name, version in found]


def licence_of(package: Distribution) -> str:
    """What a package's metadata says of its licence; empty where it says nothing."""
    said = package.metadata
    classified = [
        line.rpartition("::")[2].strip() for line in said.get_all("Classifier") or () if line.startswith("License ::")
    ]
    texts = [*(said.get_all("License-Expression") or ()), " and ".join(classified)]
    texts += said.get_all("License") or ()
    # Some name only the file of their licence.
    texts += [_file(package, f"licenses/{name}") for name in said.get_all("License-File") or ()]
    # Some write the whole text of their licence: its first line names it.
    return next((text.strip().splitlines()[0] for text in texts if text.strip()), "")


def _file(package: Distribution, name: str) -> str:
    try:
        return package.read_text(name) or ""
    except UnicodeDecodeError:
        return ""


def is_allowed(licence: str) -> bool:
    """Whether this project may ship with it; of several licences to choose from, one that may is enough."""
    choices = re.split(r"\s+or\s+", licence, flags=re.IGNORECASE)
    return any(ALLOWED.search(each) and not _REFUSED.search(each) for each in choices)


def licence_problems(pinned: Sequence[Pin]) -> Iterator[str]:
    """The packages whose licence is none of the list. What is not installed here is for another platform."""
    for pin in pinned:
        try:
            licence = licence_of(distribution(pin.name))
        except PackageNotFoundError:
            continue
        if not is_allowed(licence):
            yield f"{pin.name} {pin.version}: licence {licence or 'unknown'}"


def vulnerabilities(pinned: Sequence[Pin], database: str) -> list[str]:
    """What the database knows of these versions. Raises `OSError` where it does not answer, `ValueError` where it
    answers nonsense.
    """
    queries = [{"package": {"ecosystem": "PyPI", "name": pin.name}, "version": pin.version} for pin in pinned]
    request = Request(  # noqa: S310  # the address is a constant or the operator's
        f"{database}/v1/querybatch", json.dumps({"queries": queries}).encode(), {"Content-Type": "application/json"}
    )
    with urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
        results = json.load(answer)["results"]
    return [
        f"{pin.name} {pin.version}: {known['id']}"
        for pin, result in zip(pinned, results, strict=True)
        for known in result.get("vulns", ())
    ]


def main(database: str = "") -> int:
    pinned = pins(PINS.read_text())
    found = list(licence_problems(pinned))
    say = sys.stdout.write
    say(f"{len(pinned)} packages are pinned; {len(found)} with a licence to look at.\n")
    status = 0
    try:
        known = vulnerabilities(pinned, database or os.environ.get("AUDIT_URL", DATABASE))
        say(f"{len(known)} known vulnerabilities.\n")
        found += known
    except (OSError, ValueError, KeyError) as error:
        say(f"Vulnerabilities were NOT checked: the database did not answer ({error}).\n")
        status = 2
    say("".join(f"  {line}\n" for line in found))
    return 1 if found else status


if __name__ == "__main__":
    sys.exit(main())
