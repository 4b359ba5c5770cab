"""The kernel languages that installed packages add, by the entry-point group `compiler_lens.kernel_languages`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from compiler_lens.decode.kernel_language import KernelLanguage, KernelOrigins, LaunchText, SourceFacts
from compiler_lens.recording.model import CaptureProblem

GROUP = "compiler_lens.kernel_languages"

# Asked for only where something stands in output code that is not Inductor's: importing what finds them takes 50 ms.
Installed = Callable[[], Sequence[KernelLanguage]]


class InstalledLanguages:
    """Finds the installed languages when it is first called. Whatever fails of them is among `problems`."""

    def __init__(self) -> None:
        self.problems: list[CaptureProblem] = []
        self._found: list[KernelLanguage] | None = None

    def __call__(self) -> Sequence[KernelLanguage]:
        """Return the languages in the order of their entry points' names. None of their functions raises."""
        if self._found is None:
            self._found = self._load()
        return self._found

    def _load(self) -> list[KernelLanguage]:
        from importlib.metadata import entry_points

        points = sorted(entry_points(group=GROUP), key=lambda point: point.name)
        loaded = [self._guard(point.name, point.load, KernelLanguage, None)() for point in points]
        return [self._guarded(language) for language in loaded if language is not None]

    def _guarded(self, language: KernelLanguage) -> KernelLanguage:
        return replace(
            language,
            read=self._guard(language.name, language.read, SourceFacts, SourceFacts()),
            launch=self._guard(language.name, language.launch, (LaunchText, type(None)), None),
            origins=self._guard(language.name, language.origins, KernelOrigins, KernelOrigins()),
        )

    def _guard(self, name: str, function: Callable[..., Any], kinds: Any, otherwise: Any) -> Callable[..., Any]:
        def ask(*given: Any) -> Any:
            try:
                answer = function(*given)
                if not isinstance(answer, kinds):
                    raise TypeError(f"{function.__name__}() gave {answer!r}")  # noqa: TRY301
            except Exception as error:  # noqa: BLE001 -- somebody else's code must not cost us the recording
                self._note(name, error)
                return otherwise
            return answer

        return ask

    def _note(self, name: str, error: Exception) -> None:
        problem = CaptureProblem(f"the kernel language {name}", f"{type(error).__name__}: {error}")
        if problem not in self.problems:
            self.problems.append(problem)
