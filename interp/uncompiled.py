"""shap without numba's compiler: ten seconds in every process, for loops that take one without it.

numba decides at the decorator, so it is switched off while shap is imported and only then.
"""

from typing import Any

import numba

_config: Any = numba.config
_before = _config.DISABLE_JIT
_config.DISABLE_JIT = True
try:
    import shap
finally:
    _config.DISABLE_JIT = _before

__all__ = ["shap"]
