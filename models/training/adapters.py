"""Low-rank adapters: what a fine-tuning adds to a few linear maps (LoRA, Hu et al. 2022), by peft.

W x becomes W x + B A x, with A of ``TrainConfig.rank`` rows and B of as many columns. B begins at
0, so the first step finds the parent. Checkpoints hold W + B A: to a lens it is a model as any
other.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import torch
from torch import nn

from models.base import LanguageModel, build
from models.config import TrainConfig

if TYPE_CHECKING:
    from torch import Tensor

MAPS = {"attention": r"attn\.[qkvo]", "mlp": r"mlp\.fc_\w+"}
"""The linear maps of a block that are adapted, by the value of ``TrainConfig.adapted``."""
BASE, ADAPTER = ".base_layer", "lora_"


def add_adapters(model: LanguageModel, config: TrainConfig) -> None:
    """Adds adapters, in place. They learn, and whatever learned before."""
    from peft import LoraConfig, inject_adapter_in_model  # takes seconds to import

    maps = "|".join(MAPS.values()) if config.adapted == "both" else MAPS[config.adapted]
    names = re.compile(rf"blocks\.\d+\.(?:{maps})")
    linear = [name for name, part in model.named_modules() if isinstance(part, nn.Linear)]
    learned = {name for name, p in model.named_parameters() if p.requires_grad}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        settings = LoraConfig(
            r=config.rank,
            lora_alpha=config.rank,
            target_modules=[name for name in linear if names.fullmatch(name)],
        )
        inject_adapter_in_model(settings, model)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(ADAPTER in name or name in learned)


def merged(model: LanguageModel, config: TrainConfig) -> LanguageModel:
    """The same model without adapters: W + B A in place of W."""
    from peft.tuners.lora import Linear

    weights: dict[str, Tensor] = {
        name.replace(BASE, ""): tensor
        for name, tensor in model.state_dict().items()
        if ADAPTER not in name
    }
    for name, part in model.named_modules():
        if isinstance(part, Linear):
            weights[f"{name}.weight"] = weights[f"{name}.weight"] + part.get_delta_weight("default")
    plain = build(config.model, model.vocabulary, config.seed).to(model.device)
    plain.load_state_dict(weights)
    return plain
