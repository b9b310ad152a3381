"""Measurements: a model's rates and its operations against the limits of this machine, and a server under load."""

from cutaway.bench.limits import Limits, Meter
from cutaway.bench.per_op import StepTime, measure_ops
from cutaway.bench.rates import Rate, Work, measure
from cutaway.bench.subject import Settings, Subject
from cutaway.bench.synthetic import SHAPES, held_bytes, synthetic_model

__all__ = [
    "SHAPES",
    "Limits",
    "Meter",
    "Rate",
    "Settings",
    "StepTime",
    "Subject",
    "Work",
    "held_bytes",
    "measure",
    "measure_ops",
    "synthetic_model",
]
