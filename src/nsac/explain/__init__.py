"""Explanations of predictions at the level of cells; the module itself is the function `nsac.explain(model, rows)`."""

import sys
from types import ModuleType
from typing import Any

from nsac.explain.circuit import ExplainError as ExplainError
from nsac.explain.circuit import Trace as Trace
from nsac.explain.circuit import trace_layer as trace_layer
from nsac.explain.circuit import trace_member as trace_member
from nsac.explain.explanation import Explanation as Explanation
from nsac.explain.explanation import explain as explain
from nsac.explain.lesions import Neuron as Neuron
from nsac.explain.lesions import lesions as lesions
from nsac.explain.lesions import prune as prune


class _Callable(ModuleType):
    """The package has the name of its main function: calling it calls the function."""

    def __call__(self, *args: Any, **kwargs: Any) -> Explanation:
        return explain(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
