"""What the process of a trial is to run, and what it says of that: the messages between it and ours."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from compiler_lens.facts.measured.called import Called
from compiler_lens.facts.measured.each_call import Calls
from compiler_lens.facts.measured.fix import Difference
from compiler_lens.facts.measured.other_inputs import Counted, CountedCall, OtherInputs
from compiler_lens.recording.model import Results, SourceLine

RECORDING, RESULTS, OUTCOME = "run.clens", "results.pt", "outcome.json"  # in a trial's folder
OUTPUT, ERRORS = "output.txt", "errors.txt"  # what it prints

ALL = "*"  # stands for the names of all that objects hold
FORKS = "forks"  # what a process says that has torch, and forks for each run
BEGUN = "begun"  # what it says of a run, with the number of its process
ENDED = "ended"  # the same, with its exit status, and bytes of memory that it took


class Program(Struct, frozen=True):
    """A program as it is typed."""

    target: str  # a script's path, a module's name, or a file of Python with a factory in it
    args: tuple[str, ...] = ()
    is_module: bool = False
    factory: str = ""  # the function of the file that makes the model and its inputs
    training: bool = False  # of a factory's model: run a backward after each call


class Plan(Struct, frozen=True):
    """One run of a program."""

    program: Program
    folder: str  # where to leave what is asked for
    texts: Mapping[str, str] = field(default_factory=dict)  # of files, by absolute path, in place of what is on disk
    steps: int = 0  # end after so many outermost calls of compiled functions; 0: run to the end
    reference: str = ""  # results to compare with
    noisy: str = ""  # the same, of the program begun with parameters that are rounded otherwise
    eager: str = ""  # the same, of the program without torch.compile, where that rounds otherwise
    unsure: frozenset[str] = frozenset()  # names of what objects hold that differs between two runs as it is
    left: frozenset[str] = frozenset()  # names of objects in which a change keeps less, on purpose
    # Files and qualified names of functions that a change alone compiles: what else calls them is no compiled call.
    beside: frozenset[tuple[str, str]] = frozenset()
    is_noisy: bool = False  # begin with such parameters
    is_eager: bool = False  # without torch.compile
    is_aot: bool = False  # AOTAutograd traces what Dynamo captured
    is_aot_of_floats: bool = False  # it does so of graphs that are given a number that Dynamo left open
    has_own_backend: bool = False  # the program's own backend compiles it
    is_rough: bool = False  # what differs no more than rounding may make of it is the same
    is_kept: bool = False  # leave what is computed, also where it is compared, if it differs
    observe: frozenset[str] = (
        frozenset()
    )  # files: of calls of their functions is kept what these were given and returned

    with_others: bool = False  # make calls with other inputs, too, and keep and compare what these give, nothing else
    count_lines: frozenset[str] = frozenset()  # files: how often their lines run in compiled functions is kept

    @property
    def at(self) -> Path:
        """The folder."""
        return Path(self.folder)


class Outcome(Struct, frozen=True):
    """How it went."""

    script: str = ""  # the file that the program begins with
    loaded: tuple[str, ...] = ()  # files of the modules that it imported, where it ran as it is
    calls: int = 0
    calls_of: tuple[Calls, ...] = ()  # the same of each function
    results: Results = Results.UNKNOWN
    difference: Difference | None = None
    unsure: tuple[str, ...] = ()  # names of what objects hold, and is another than in the reference
    said: tuple[str, ...] = ()  # what the program's own lines logged
    zero_gradients: int = 0  # gradients that are zeros where the program as it is has none
    kept_tensors: int = 0  # results that are tensors where the program as it is returns numbers
    is_whole: bool = True  # all results were kept; False: only as many as memory is meant for
    called: tuple[Called, ...] = ()
    others: OtherInputs = OtherInputs()
    counted: Counted = {}
    counted_calls: tuple[CountedCall, ...] = ()  # the same of each call with other inputs
    error: str = ""
    is_inductor: bool = False  # all that torch.compile was given is for Inductor
    is_met: bool = False  # another run at the same time would meet what it does outside of its process
    is_unusable: bool = False  # nothing was raised: what was named is not there, or makes no model
    error_line: SourceLine | None = None
    operators: int = 0  # that ran in graphs
    launches: int = 0  # of graphs
