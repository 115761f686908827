"""Which variables and which sites an intervention may change."""

from __future__ import annotations

from analyses.questions.inside.probing import site_hooks
from interp.model import HookedModel
from models.base import LanguageModel


def stream_hooks(model: HookedModel) -> dict[str, str]:
    """The hooks of the residual stream and of an LSTM's cells, by label: all that is passed on."""
    names = ("embed", "resid_mid", "resid_post", "cell")
    return {label: hook for label, hook in site_hooks(model).items() if label.split()[-1] in names}


def exchange_sites(model: LanguageModel) -> dict[str, str]:
    """The sites of the stream without the last one, from which the logits are read off. Of a
    recurrent network all states: the next position goes on from each of them."""
    hooks = stream_hooks(model)
    if model.config.family.recurrent:
        del hooks["embed"]
    else:
        del hooks[f"L{model.cfg.n_layers - 1} resid_post"]
    return hooks
