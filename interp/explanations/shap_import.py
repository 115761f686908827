"""shap without numba's compiler: ten seconds in every process, for loops that take one without it.

numba decides at the decorator, so it is switched off while shap is imported and only then.
"""

from functools import cache
from typing import Any


@cache
def shap() -> Any:
    """The package, imported when it is first asked for."""
    import numba

    config: Any = numba.config
    before = config.DISABLE_JIT
    config.DISABLE_JIT = True
    try:
        import shap
    finally:
        config.DISABLE_JIT = before
    return shap
