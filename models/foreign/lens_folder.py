"""A network of TransformerLens: from ``cfg.to_dict()`` as JSON, and a file of its ``state_dict()``.

TransformerLens 4 has no ``HookedTransformer``. It has a network of its own ("native") instead,
which computes the same from the same weights in another form. Nothing is unpickled but tensors.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from models.errors import UserError
from models.foreign.network import bridged, built

WRITE_CONFIG = "Path('config.json').write_text(json.dumps(model.cfg.to_dict(), default=str))"
"""What writes a configuration; without ``default`` the kind of its numbers is no JSON."""
SIZES = {"d_model": 1, "d_head": 1, "d_vocab": 1, "n_layers": 1, "n_ctx": 4}
"""The least that numbers may be. Two short words show whether a network reads ahead."""
MOST = 10**8
"""The most that they may be: the weights of more cannot even be counted."""
COMPUTED = {
    *(*SIZES, "n_heads", "d_mlp", "act_fn", "eps", "attn_only", "gated_mlp", "n_key_value_heads"),
    *("normalization_type", "final_rms", "attn_scale", "attn_scores_soft_cap", "init_mode"),
    *("positional_embedding_type", "rotary_dim", "rotary_base", "rotary_adjacent_pairs"),
    *("output_logits_soft_cap", "initializer_range", "architecture"),
}
"""What a native network hangs on. Nothing else is handed on: no name of a tokenizer, no device."""
WITHOUT_EFFECT = {
    *("use_attn_scale", "use_attn_result", "use_split_qkv_input", "use_hook_mlp_in", "use_attn_in"),
    *("use_hook_tokens", "default_prepend_bos", "tokenizer_prepends_bos", "tokenizer_appends_eos"),
    *("init_weights", "from_checkpoint", "tie_word_embeddings", "trust_remote_code"),
    "ungroup_grouped_query_attention",
}
"""What may be true and changes no logits. Everything else that is true is not computed."""
NATIVE = "TransformerLensNative"
ONLY: dict[str, tuple[Any, ...]] = {
    "architecture": (None, NATIVE),
    "attention_dir": ("causal",),
    "use_attn_scale": (True,),
    "num_experts": (None,),
    "rope_scaling": (None,),
}
"""The values that are computed, of keys that may have others."""
BUFFERS = (".mask", ".IGNORE", ".rotary_sin", ".rotary_cos")
"""The ends of the names of what a ``HookedTransformer`` makes anew from its configuration."""
TOGETHER = "save weights and config.json together"


def configuration(path: Path, content: dict[str, Any]) -> Any:
    """The configuration of a native network; None if the content is none of TransformerLens.

    Raises:
        UserError: a number is no size, or a native network does not compute what is asked for.
    """
    from transformer_lens import TransformerBridgeConfig

    if "model_type" in content or not {"d_model", "d_head"} <= content.keys():
        return None
    for name, least in SIZES.items():
        size = content.get(name)
        if not isinstance(size, int) or not least <= size <= MOST:
            raise UserError(
                f"{path} says that {name} is {size!r:.40}, and it is a whole number from {least} "
                f"to {MOST}: write the file anew with `{WRITE_CONFIG}`"
            )
    only = ONLY | {"d_vocab_out": (None, -1, content["d_vocab"])}
    for name, value in content.items():
        flag = value is True and name not in COMPUTED | WITHOUT_EFFECT
        if flag or value not in only.get(name, (value,)):
            raise UserError(
                f"{path} says that {name!r:.40} is {value!r:.40}, and TransformerLens 4 computes "
                "no such network by itself: save it with save_pretrained of transformers, if that "
                "has it"
            )
    config = TransformerBridgeConfig(**{key: content[key] for key in COMPUTED & content.keys()})
    # A native network turns neighbours, whatever its configuration says.
    config.rotary_adjacent_pairs |= content.get("architecture") == NATIVE
    # The names of transformers, which are read of every configuration.
    config.vocab_size, config.bos_token_id, config.eos_token_id = config.d_vocab, None, None
    return config


def bridge_of(path: Path, config: Any, device: torch.device) -> Any:
    """The bridge with the weights of a file.

    Raises:
        UserError: the file holds more than tensors, or other weights than the configuration's.
    """
    from transformer_lens.utilities.tl_checkpoint_conversion import convert_tl_checkpoint

    bridge = bridged(built(config).to(device))
    wanted, weights = bridge.state_dict(), _tensors(path)
    # A tensor may be one number that is said to be millions, and all of them would be copied.
    if _count(weights) > 2 * _count(wanted):
        raise UserError(
            f"{path} has {_count(weights)} numbers, and config.json asks for {_count(wanted)}: "
            f"{TOGETHER}"
        )
    hooked = "embed.W_E" in weights
    if hooked:
        weights = convert_tl_checkpoint(weights, config)
    for name in sorted(weights.keys() | wanted.keys()):
        if name not in wanted and name.endswith(".bias") and not weights[name].any():
            del weights[name]  # a gated MLP has no biases any more
        elif name not in weights:
            raise UserError(f"{path} lacks the weights {name}: {TOGETHER}")
        elif name not in wanted:
            raise UserError(
                f"{path} has the weights {name!r:.80}, and config.json asks for none: {TOGETHER}"
            )
        elif weights[name].shape != wanted[name].shape:
            raise UserError(
                f"{path}: the weights {name} have the shape {[*weights[name].shape]}, and "
                f"config.json asks for {[*wanted[name].shape]}: {TOGETHER}"
            )
    if hooked and not config.rotary_adjacent_pairs:
        _pair_neighbours(weights, config)
    bridge.load_state_dict(weights)
    return bridge


def _tensors(path: Path) -> dict[str, Tensor]:
    """The weights of a file, without buffers."""
    from safetensors.torch import load_file

    if path.suffix == ".safetensors":
        weights: Any = load_file(path)
    else:
        try:
            weights = torch.load(path, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError:
            raise UserError(
                f"{path} holds more than tensors, such as a whole module, and is not unpickled, "
                "because it may hold code: write it anew with "
                f"`torch.save(model.state_dict(), '{path.name}')`"
            ) from None
        if isinstance(weights, dict):
            weights = weights.get("state_dict", weights.get("model_state_dict", weights))
    if isinstance(weights, dict):
        weights = {str(k): v for k, v in weights.items() if not str(k).endswith(BUFFERS)}
        if all(isinstance(v, Tensor) and v.is_floating_point() for v in weights.values()):
            return weights
    raise UserError(
        f"{path} is no state dict: write it with `torch.save(model.state_dict(), 'model.pt')`"
    )


def _count(weights: dict[str, Tensor]) -> int:
    """The numbers of all weights, as their shapes say."""
    return sum(tensor.numel() for tensor in weights.values())


def _pair_neighbours(weights: dict[str, Tensor], config: Any) -> None:
    """Reorders queries and keys: a rotary ``HookedTransformer`` turns dimension i of a head and
    dimension i of its second half together, a native network turns neighbours."""
    if str(config.positional_embedding_type).lower() != "rotary":
        return
    turned = config.rotary_dim or config.d_head
    halves = torch.arange(turned).view(2, -1).T.flatten()
    order = torch.cat([halves, torch.arange(turned, config.d_head)])
    for name, tensor in weights.items():
        if name.endswith((".q.weight", ".q.bias", ".k.weight", ".k.bias")):
            weights[name] = tensor.unflatten(0, (-1, config.d_head))[:, order].flatten(0, 1)
