"""What the environment is read from, once a process: a lens may be opened for each of many small compilations."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
from compiler_lens.capture import session


def test_versions_of_packages_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def version(package: str) -> str:
        asked.append(package)
        if package == "triton":
            raise session.metadata.PackageNotFoundError(package)
        return "1.2"

    monkeypatch.setattr(session.metadata, "version", version)
    session._versions.cache_clear()
    try:
        first, second = session.describe_environment({}), session.describe_environment({})
    finally:
        session._versions.cache_clear()
    assert sorted(asked) == sorted(session._PACKAGES)
    assert first["versions"] == second["versions"]
    assert first["triton"] == ""
    assert "triton" not in first["versions"]
