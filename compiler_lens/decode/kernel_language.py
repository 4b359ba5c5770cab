"""What a kernel language is: how its kernels and their calls stand in output code. docs/extending.md adds one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from sys import intern
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from compiler_lens.recording.model import CaptureProblem, KernelConfig, KernelKind


class KernelText(Struct, frozen=True):
    """A kernel's definition in output code: `name = maker(..., source, ...)`."""

    name: str
    maker: str  # the function called, as it stands there: "async_compile.triton"
    source: str  # the longest of the strings that it is given
    names: tuple[str, ...] = ()  # the variables in its arguments: a multi-kernel is made of other kernels


class SourceFacts(Struct, frozen=True):
    """What a kernel's source says of it."""

    shape: str = ""  # "pointwise", "reduction", "template"
    device: str = ""  # where the source says it
    configs: tuple[KernelConfig, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)


class KernelOrigins(Struct, frozen=True):
    """The ops that a kernel, or one launch of it, was made from."""

    aten: tuple[str, ...] = ()  # ATen ops: "aten.add"
    source_nodes: tuple[str, ...] = ()  # of the Dynamo graph; in a backward, of its AOT graph
    nodes: tuple[str, ...] = ()  # of the post-grad graph
    meta: Mapping[str, Any] = field(default_factory=dict)


class CallText(Struct, frozen=True):
    """A call in output code, as text."""

    function: str  # "toy_kernel_0.run"
    arguments: tuple[str, ...] = ()
    keywords: Mapping[str, str] = field(default_factory=dict)


class LaunchText(Struct, frozen=True):
    """A call that launches a kernel."""

    kernel: str  # the name that the output code defines it by
    arguments: tuple[str, ...]
    grid: str = ""


class KernelDefinition(Struct, frozen=True):
    """A kernel that an output code defines, read."""

    name: str
    language: KernelLanguage
    source: str = ""
    facts: SourceFacts = SourceFacts()
    origins: KernelOrigins = KernelOrigins()


Definitions = Mapping[str, KernelDefinition]  # all kernels of an output code, by name


def launched_by_name(call: CallText, _kernels: Definitions) -> LaunchText:
    """Read a call of a kernel by its name: `k.run(...)` as for Triton, `k.k(...)` as for CUTLASS, `k(...)` as for C++.

    The stream is not one of the kernel's arguments.
    """
    keywords = [f"{name}={value}" for name, value in call.keywords.items() if name != "stream"]
    return LaunchText(call.function.partition(".")[0], (*call.arguments, *keywords))


# get_kernel_metadata() in torch/_inductor/utils.py writes the comments, the same on 2.11, 2.13 and 2.15.
_ORIGINS = re.compile(r"Source Nodes: \[((?:(?!Source Nodes: \[).)*?)\], Original ATen: \[(.*)\]")
_FRAGMENT_NODE = re.compile(r"#   %(\w+) : .*?= call_\w+\[target=")
_NODE_MAPPING = re.compile(r"#   (\w+) => (.+)")


def origins_in_comments(comments: Sequence[str], _name: str) -> KernelOrigins:
    """Read the comment lines that Inductor writes above a kernel's definition, and above a launch."""
    if not comments:
        return KernelOrigins()
    aten: tuple[str, ...] = ()
    source_nodes: tuple[str, ...] = ()
    nodes: dict[str, None] = {}
    mapping: dict[str, list[str]] = {}
    meta: dict[str, Any] = {}
    for comment in comments:
        if node := _FRAGMENT_NODE.match(comment):
            nodes[intern(node[1])] = None
        elif origin := _NODE_MAPPING.match(comment):
            mapping[intern(origin[1])] = [*map(intern, origin[2].split(", "))]
        elif listed := _ORIGINS.search(comment):
            source_nodes, aten = (tuple(map(intern, text.split(", "))) if text else () for text in listed.groups())
        elif comment.startswith("# Original path: "):  # of a user's Triton kernel
            meta["path"] = comment.removeprefix("# Original path: ")
    return KernelOrigins(aten, source_nodes, tuple(nodes), {"source_nodes": mapping} | meta if mapping else meta)


class KernelLanguage(Struct, frozen=True):
    """A language that kernels are written in, and how to read them in output code.

    A kernel is of the first language that makes it with one of `makers` from a source that holds `holds`, or whose
    `libraries` hold a function that is called and not defined. Kernels that nobody defines are named by that function.
    """

    name: str  # as it is shown: "Triton"
    kind: KernelKind = KernelKind.OTHER
    makers: tuple[str, ...] = ()  # functions that make a kernel from its source: "async_compile.triton"
    holds: str = ""
    libraries: tuple[str, ...] = ()  # how names of functions that run a kernel begin: "extern_kernels."
    methods: frozenset[str] = frozenset()  # methods of tensors that run a kernel
    lexer: str = "python"  # the name that Pygments knows the source's language by
    read: Callable[[KernelText], SourceFacts] = lambda _text: SourceFacts()
    launch: Callable[[CallText, Definitions], LaunchText | None] = launched_by_name
    origins: Callable[[Sequence[str], str], KernelOrigins] = origins_in_comments

    def makes(self, text: KernelText) -> bool:
        """Return whether a kernel so defined is of this language."""
        return text.maker in self.makers and self.holds in text.source


# -- languages that installed packages add

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
            from importlib.metadata import entry_points

            loaded = []
            for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
                language = self._guard(point.name, point.load, KernelLanguage, None)()
                if language is not None:
                    read = self._guard(language.name, language.read, SourceFacts, SourceFacts())
                    launch = self._guard(language.name, language.launch, (LaunchText, type(None)), None)
                    origins = self._guard(language.name, language.origins, KernelOrigins, KernelOrigins())
                    loaded.append(replace(language, read=read, launch=launch, origins=origins))
            self._found = loaded
        return self._found

    def _guard(self, name: str, function: Callable[..., Any], kinds: Any, otherwise: Any) -> Callable[..., Any]:
        def ask(*given: Any) -> Any:
            try:
                answer = function(*given)
                if not isinstance(answer, kinds):
                    raise TypeError(f"{function.__name__}() gave {answer!r}")  # noqa: TRY301
            except Exception as error:  # noqa: BLE001 -- somebody else's code must not cost us the recording
                problem = CaptureProblem(f"the kernel language {name}", f"{type(error).__name__}: {error}")
                if problem not in self.problems:
                    self.problems.append(problem)
                return otherwise
            return answer

        return ask
