"""`nox -s check` runs everything in this environment; the other sessions make one of their own."""

import sys

import nox

nox.options.sessions = ["check"]
# Three on two cores: a third of the time a worker waits for a process that its test has started.
PARALLEL = ("-n", "3", "--dist", "loadfile", "--durations", "40")


@nox.session(venv_backend="none")
def check(session: nox.Session) -> None:
    """Style, types, tests, in the environment that nox itself runs in."""
    for command in (
        ("ruff", "check", "."),
        ("ruff", "format", "--check", "."),
        ("mypy",),
        # Once, and not in each of a thousand processes, where the environment says that none is to write it.
        ("compileall", "-q", "compiler_lens", "tests"),
        ("pytest", *PARALLEL, *session.posargs),
    ):
        session.run(sys.executable, "-m", *command)


@nox.session(reuse_venv=True)
def mutants(session: nox.Session) -> None:
    """Whether tests notice small faults in what changed: `nox -s mutants -- REV [--sample N] [--jobs N]`."""
    session.install("cosmic-ray==8.7.0")
    session.run("python", "tests/mutants.py", "--python", sys.executable, *session.posargs)


@nox.session(venv_backend="none")
def torch_tests(session: nox.Session) -> None:
    """PyTorch's own tests, plain and under a lens: `nox -s torch_tests -- [--sources DIR] [--jobs N] [--help]`."""
    session.run(sys.executable, "-m", "corpus", *session.posargs, env={"PYTHONPATH": "tests"}, success_codes=[0, 1])


@nox.session(venv_backend="none")
def fuzz(session: nox.Session) -> None:
    """Whether strange input ends in a value or an error of ours: `nox -s fuzz -- [--cases N] [--kind K] [--seed N]`."""
    session.run(sys.executable, "tests/fuzz/fuzz.py", *session.posargs, env={"PYTHONPATH": "."})


@nox.session(reuse_venv=True)
@nox.parametrize("torch", ["2.11.0", "2.15.0"])
def torch(session: nox.Session, torch: str) -> None:
    """The same tests on another torch, in an environment of its own (several GB: its wheels are CUDA builds)."""
    session.install("-e", ".[test]", f"torch=={torch}")
    session.run("pytest", *PARALLEL, *session.posargs)
