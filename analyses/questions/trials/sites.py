"""Which variables and which sites an intervention may change."""

from __future__ import annotations

from analyses.questions.probing import site_hooks
from interp.model import HookedModel
from models.base import LanguageModel
from models.languages import Language

ANSWERS = ("valid", "accepting")
"""Variables that are not part of the state that a reader must keep, but the answer itself."""


def stream_hooks(model: HookedModel) -> dict[str, str]:
    """The hooks of the residual stream and of an LSTM's cells, by label: all that is passed on."""
    names = ("embed", "resid_mid", "resid_post", "cell")
    return {label: hook for label, hook in site_hooks(model).items() if label.split()[-1] in names}


def main_variables(language: Language) -> list[str]:
    """The hidden variables that a reader must keep, the one that says most first."""
    names = [name for name in language.variables if name not in ANSWERS]
    counts = [name for name in names if language.variables[name] == "count"]
    return sorted(names, key=lambda name: ("-" not in name, name not in counts))


def exchange_sites(model: LanguageModel) -> dict[str, str]:
    """The sites of the stream without the last one, from which the logits are read off. Of a
    recurrent network all states: the next position goes on from each of them."""
    hooks = stream_hooks(model)
    if model.config.family.recurrent:
        del hooks["embed"]
    else:
        del hooks[f"L{model.cfg.n_layers - 1} resid_post"]
    return hooks
