"""BBR congestion control: a simulator, the algorithms themselves, and environments for learning.

>>> import bbrlab
>>> r = bbrlab.run(rate="100mbit", rtt="40ms", buffer="1bdp", flows=["bbr3", "cubic@5s"], duration="30s")
>>> round(r.groups["bbr3"].share, 2)
0.8

Keywords, values and figures are those of the command `bbrlab run`; the same seed gives the same bytes.
"""

# SPDX-License-Identifier: Apache-2.0 OR MIT

from bbrlab import ab
from bbrlab._algorithm import Algorithm
from bbrlab._bbrlab import Ack, Controller, InternalError, ScenarioError, Sent, Table, Timeout, Token, __version__
from bbrlab._catalogue import algorithms, keys, parameters
from bbrlab._evidence import conform, reproduce, score
from bbrlab._figures import Bottleneck, Distribution, Expectation, Flow, Group, Model, Run
from bbrlab._record import Record
from bbrlab._result import Comparison, Page, Result, compare, read
from bbrlab._run import Scenario, arun, run
from bbrlab._study import Advice, Study, Tuned, advise, cdn, replay, tune
from bbrlab._sweep import sweep

__all__ = [
    "Ack",
    "Advice",
    "Algorithm",
    "Bottleneck",
    "Comparison",
    "Controller",
    "Distribution",
    "Expectation",
    "Flow",
    "Group",
    "InternalError",
    "Model",
    "Page",
    "Record",
    "Result",
    "Run",
    "Scenario",
    "ScenarioError",
    "Sent",
    "Study",
    "Table",
    "Timeout",
    "Token",
    "Tuned",
    "__version__",
    "ab",
    "advise",
    "algorithms",
    "arun",
    "cdn",
    "compare",
    "conform",
    "keys",
    "parameters",
    "read",
    "replay",
    "reproduce",
    "run",
    "score",
    "sweep",
    "tune",
]
