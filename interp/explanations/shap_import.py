"""shap without numba's compiler, and without transformers.

Compiling takes ten seconds in every process, for loops that take one second uncompiled. numba
decides whether to compile when a function is defined. So it is switched off only while shap is
imported. And every explainer would import all of transformers, some three seconds, to see that a
game is no language model of theirs.
"""

from functools import cache
from typing import Any


@cache
def shap() -> Any:
    """The package shap, imported when it is first asked for."""
    import numba

    config: Any = numba.config
    before = config.DISABLE_JIT
    config.DISABLE_JIT = True
    try:
        import shap
        from shap.explainers import _explainer
    finally:
        config.DISABLE_JIT = before
    _explainer.is_transformers_lm = lambda model: False
    return shap
