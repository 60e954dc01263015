"""The agreed benchmark: problems x methods x sizes -> work and precision.

    results = carom.bench.run(quick=True)
    print(results.table())
    results.report("report.html")

`Method` says how a method from outside enters, `docs/benchmark.md` what is measured and how.
"""

from carom.bench.methods import METHODS, Method, Motion
from carom.bench.problems import KINDS, PROBLEMS, kind_of
from carom.bench.results import Results, load
from carom.bench.run import run

__all__ = [
    "KINDS",
    "METHODS",
    "PROBLEMS",
    "Method",
    "Motion",
    "Results",
    "kind_of",
    "load",
    "run",
]
