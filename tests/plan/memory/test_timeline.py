"""Sums over time."""

import numpy as np

from torchdeck.plan.memory.memory_timeline import Term, Timeline


def test_peaks_of_phases() -> None:
    """Each phase has its own peak, with what was held over from before in its terms."""
    timeline = Timeline("setup")
    timeline.add(Term.PARAMETERS, 100)
    timeline.spike(Term.BUCKETS, 50)
    timeline.enter("forward")
    timeline.extend(np.array([Term.ACTIVATIONS] * 2, dtype=np.int8), np.array([30, -20]))
    timeline.add(Term.LOGITS, 5)
    setup, forward = timeline.peaks()
    assert (setup.phase, setup.total, setup.terms) == ("setup", 150, {Term.PARAMETERS: 100, Term.BUCKETS: 50})
    assert (forward.phase, forward.total) == ("forward", 130)
    assert forward.terms == {Term.PARAMETERS: 100, Term.ACTIVATIONS: 30}


def test_a_phase_that_comes_again_counts_once() -> None:
    """Its largest sum of all times counts."""
    timeline = Timeline("forward")
    for size in (10, 40, 20):
        timeline.enter("forward")
        timeline.spike(Term.ACTIVATIONS, size)
        timeline.enter("backward")
        timeline.spike(Term.GRADIENTS, 1)
    assert [(peak.phase, peak.total) for peak in timeline.peaks()] == [("forward", 40), ("backward", 1)]


def test_nothing_has_no_peak() -> None:
    """An empty timeline."""
    assert Timeline().peaks() == []
