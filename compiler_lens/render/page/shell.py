"""What every page of ours is put together from: templates, our style and script, a policy that allows nothing else."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from compiler_lens.recording.errors import UsageError
from compiler_lens.views.text import clean

_HERE = Path(__file__).parent


def own_file(name: str) -> str:
    """The text of a file of ours."""
    return (_HERE / name).read_text("utf-8")


def script(*subjects: str) -> str:
    """Return the page's script, put together from files of ours, each about one subject."""
    inside = "\n".join(own_file(f"scripts/{subject}.js") for subject in subjects)
    return f'"use strict";\n(() => {{\n{inside}}})();\n'


def rendered(template: str, style: str, script: str, **given: Any) -> str:
    """The page: a template with what it shows, and with the style and the script, which are ours."""
    return (
        _environment()
        .get_template(template)
        .render(
            **given,
            style=Markup(style),  # noqa: S704 -- our own file
            script=Markup(script),  # noqa: S704 -- our own file
            policy=_policy(style, script),
        )
    )


def write(content: str, target: Path) -> None:
    """A page to a file. Raises `UsageError` where it cannot be written."""
    try:
        target.write_text(content, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror or error}") from error


def _policy(style: str, script: str) -> str:
    """Nothing may be loaded, and nothing run but our own script: not even what somebody should get into the page."""

    def digest(content: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"

    return (
        f"default-src 'none'; script-src {digest(script)}; style-src {digest(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _shown(value: Any) -> Any:
    """What a template prints: always clean, and then escaped."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return "" if value is None else value
    return clean(value)
