"""Sentences that torch's own words go into: one full stop, one class name."""

from __future__ import annotations

from compiler_lens.decode.graph_breaks import read_dynamo_error
from compiler_lens.facts.overview.evidence import CacheBypassed
from compiler_lens.facts.overview.findings import Finding, Severity
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import (
    CacheLayer,
    CacheOutcome,
    CacheResult,
    CompileId,
)
from compiler_lens.views.advice import advice


def test_a_reason_that_is_a_sentence_ends_once() -> None:
    for reason in ("No shape env", "No shape env."):
        outcome = CacheOutcome(CompileId(0, 0), CacheLayer.FX_GRAPH, CacheResult.BYPASS, reason=reason)
        told = advice(Finding(Severity.LOW, CacheBypassed(CacheLayer.FX_GRAPH, (outcome,))))
        assert told.what == "1 graph not kept, so every new process compiles again: No shape env."


def test_an_exception_is_named_once() -> None:
    for message in ("no such op", "NotImplementedError: no such op"):
        text = f'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    f()\nNotImplementedError: {message}\n'
        (failure,) = read_dynamo_error(Event("dynamo_error", 0.0, text=text), CompileId(0, 0), {})
        assert failure.message == "NotImplementedError: no such op"
