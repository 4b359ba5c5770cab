"""What every page of ours is put together from: templates, our style and script, a policy that allows nothing else."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from compiler_lens.views.text import clean

_HERE = Path(__file__).parent


def own_file(name: str) -> str:
    """Return the text of a file of ours."""
    return (_HERE / name).read_text("utf-8")


def script(*subjects: str) -> str:
    """Return the page's script, put together from files of ours, each about one subject."""
    inside = "\n".join(own_file(f"scripts/{subject}.js") for subject in subjects)
    return f'"use strict";\n(() => {{\n{inside}}})();\n'


def rendered(template: str, style: str, script: str, **given: Any) -> str:
    """Return the page: a template with what it shows, and with the style and the script, which are ours."""
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (script, style)]
    # Nothing may be loaded, and nothing run but our own script: not even what somebody should get into the page.
    policy = (
        f"default-src 'none'; script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    ours = {"style": Markup(style), "script": Markup(script)}  # noqa: S704 -- our own files
    return environment.get_template(template).render(**given, **ours, policy=policy)


def _shown(value: Any) -> Any:
    """What a template prints: always clean, and then escaped."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return "" if value is None else value
    return clean(value)
