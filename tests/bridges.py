"""Tiny models of the kinds that people look into: each one bridged, and as ``transformers`` has it.

``Plain`` is the oracle. It knows nothing of TransformerLens: it reads and changes the modules of
the original model. So whatever a lens says of the bridge can be done again by hand.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from transformer_lens.model_bridge import TransformerBridge
from transformer_lens.model_bridge.sources import build_bridge_from_module
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    GPT2Config,
    GPTNeoXConfig,
    LlamaConfig,
    PretrainedConfig,
    Qwen2Config,
    Qwen3Config,
)

VOCABULARY, HEADS, LAYERS, WIDTH, HIDDEN = 5, 4, 2, 8, 3
COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "intermediate_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "max_position_embeddings": 16,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": None,
}
GROUPED = {**COMMON, "num_key_value_heads": 2}
GPT2 = {
    "vocab_size": VOCABULARY,
    "n_embd": WIDTH,
    "n_layer": LAYERS,
    "n_head": HEADS,
    "n_positions": 16,
    "n_inner": HIDDEN,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
KINDS: Mapping[str, Callable[[], PretrainedConfig]] = {
    "GPT-2": lambda: GPT2Config(**GPT2),
    "Llama": lambda: LlamaConfig(**GROUPED),
    "NeoX": lambda: GPTNeoXConfig(**COMMON, use_parallel_residual=True),
    "NeoX sequential": lambda: GPTNeoXConfig(**COMMON, use_parallel_residual=False),
    "Qwen 2": lambda: Qwen2Config(**GROUPED),
    "Qwen 3": lambda: Qwen3Config(**GROUPED, head_dim=4),
    "Gemma 2": lambda: Gemma2Config(**GROUPED, head_dim=4, query_pre_attn_scalar=4),
}
"""How they differ stands in docs/pages/how_to/your_model.md."""


@dataclass(frozen=True)
class Names:
    """Where a kind of model keeps its modules; the last two are how a fused q, k, v is cut."""

    layers: str
    attention: str
    output: str
    down: str
    norms: tuple[str, str]
    final: str
    act: str
    fused: str | None = None
    by_head: bool = False


GPT2_NAMES = Names(
    *("transformer.h", "attn", "c_proj", "c_proj", ("ln_1", "ln_2")),
    *("transformer.ln_f", "act", "c_attn"),
)
NEOX_NAMES = Names(
    *("gpt_neox.layers", "attention", "dense", "dense_4h_to_h"),
    ("input_layernorm", "post_attention_layernorm"),
    *("gpt_neox.final_layer_norm", "act", "query_key_value"),
    by_head=True,
)
LLAMA_NAMES = Names(
    *("model.layers", "self_attn", "o_proj", "down_proj"),
    ("input_layernorm", "post_attention_layernorm"),
    *("model.norm", "act_fn"),
)
GEMMA_NAMES = Names(
    *("model.layers", "self_attn", "o_proj", "down_proj"),
    ("input_layernorm", "pre_feedforward_layernorm"),
    *("model.norm", "act_fn"),
)

Change = Callable[[Tensor], None]
"""Changes a view of an activation in place: [batch, pos, head, d_head], or [batch, pos, width]."""
Place = tuple[str, int]
"""A component of ``interp.causal.sites``, and a layer."""


@dataclass
class Plain:
    """A model of ``transformers``, read and changed by hooks on its own modules."""

    model: nn.Module
    names: Names
    parallel: bool
    behind: bool  # norms behind attention and MLP, as in Gemma 2
    heads: int = HEADS
    read: dict[Place, Tensor] = field(default_factory=dict)

    @property
    def layers(self) -> Sequence[Any]:
        return self.model.get_submodule(self.names.layers)

    @property
    def final(self) -> Any:
        return self.model.get_submodule(self.names.final)

    @property
    def W_U(self) -> Tensor:
        return self.model.get_output_embeddings().weight.T

    def attention(self, layer: int) -> Any:
        return getattr(self.layers[layer], self.names.attention)

    def norm(self, layer: int, which: int) -> Any:
        return getattr(self.layers[layer], self.names.norms[which])

    def W_O(self, layer: int) -> Tensor:
        """[head, d_head, d_model]."""
        weight = getattr(self.attention(layer), self.names.output).weight
        weight = weight if self.names.fused == "c_attn" else weight.T  # GPT-2 has it transposed
        return weight.unflatten(0, (self.heads, -1))

    def __call__(self, tokens: Tensor, **changes: Any) -> Tensor:
        return self.run(tokens, {}, **changes)

    def run(self, tokens: Tensor, changes: Mapping[Place, Change], **more: Any) -> Tensor:
        """The logits of a run in which activations are changed in place."""
        given = {"input_ids": tokens} if "inputs_embeds" not in more else {}
        with self.hooked(changes):
            return self.model(**given, **more, use_cache=False).logits

    def reading(self, tokens: Tensor, *places: Place) -> dict[Place, Tensor]:
        """The activations at some places."""
        found: dict[Place, Tensor] = {}

        def keep(place: Place) -> Change:
            return lambda x: found.update({place: x.detach().clone()})

        with torch.no_grad():
            self.run(tokens, {place: keep(place) for place in places})
        return found

    def patterns(self, tokens: Tensor) -> Tensor:
        """[layer, batch, head, query, key]."""
        with torch.no_grad():
            out = self.model(input_ids=tokens, output_attentions=True, use_cache=False)
        return torch.stack(out.attentions)

    @contextmanager
    def hooked(self, changes: Mapping[Place, Change]) -> Iterator[None]:
        with ExitStack() as stack:
            for (component, layer), change in changes.items():
                handle = self._hook(component, layer, change)
                stack.callback(handle.remove)
            yield

    def _hook(self, component: str, layer: int, change: Change) -> Any:
        block, attention, names = self.layers[layer], self.attention(layer), self.names
        output, down = getattr(attention, names.output), getattr(block.mlp, names.down)
        inputs = {"resid_pre": block, "z": output, "neuron": down, "mlp_in": block.mlp}
        if component in inputs:

            def before(module: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
                if args:
                    return (self._changed(args[0], component, change), *args[1:]), kwargs
                x = self._changed(kwargs["hidden_states"], component, change)
                return args, {**kwargs, "hidden_states": x}

            return inputs[component].register_forward_pre_hook(before, with_kwargs=True)
        outputs = {"resid_post": block, "attn_out": output, "mlp_out": block.mlp}
        if self.behind:
            outputs["attn_out"] = block.post_attention_layernorm
            outputs["mlp_out"] = block.post_feedforward_layernorm
        if component in ("q", "k", "v"):
            fused = getattr(attention, names.fused or f"{component}_proj")
            outputs[component] = fused

        def after(module: object, args: object, out: Any) -> Any:
            if isinstance(out, tuple):
                return (self._changed(out[0], component, change), *out[1:])
            return self._changed(out, component, change)

        return outputs[component].register_forward_hook(after)

    def _changed(self, x: Tensor, component: str, change: Change) -> Tensor:
        x = x.clone()
        change(self.view(x, component))
        return x

    def view(self, x: Tensor, component: str) -> Tensor:
        """The part of a module's input or output that is the component, by head if it has heads."""
        if component == "z":
            return x.unflatten(-1, (self.heads, -1))
        if component in ("q", "k", "v"):
            which = "qkv".index(component)
            if self.names.by_head:
                return x.unflatten(-1, (self.heads, 3, -1))[..., which, :]
            if self.names.fused:
                return x.unflatten(-1, (3, self.heads, -1))[..., which, :, :]
            return x.unflatten(-1, (-1, self.attention(0).head_dim))
        return x


@dataclass(frozen=True)
class Pair:
    """A bridge, and the plain model that it was made of, with the same random weights."""

    bridge: TransformerBridge
    plain: Plain


@cache
def pair(kind: str, positions: bool = True, compatible: bool = False) -> Pair:
    """Makes a small random model of a kind in float64.

    Args:
        positions: False zeroes a table of positions that is added to the embeddings.
        compatible: with TransformerLens' compatibility mode, which folds the norms' weights.
    """
    bridge, model = made(KINDS[kind](), positions)
    names = {"GPT-2": GPT2_NAMES, "Gemma 2": GEMMA_NAMES}.get(kind, LLAMA_NAMES)
    names = NEOX_NAMES if kind.startswith("NeoX") else names
    if compatible:
        bridge.enable_compatibility_mode()
    for parameter in (*bridge.parameters(), *model.parameters()):
        parameter.requires_grad_(False)
    return Pair(bridge, Plain(model, names, kind == "NeoX", kind == "Gemma 2"))


def made(config: PretrainedConfig, positions: bool = True) -> tuple[TransformerBridge, nn.Module]:
    """A bridge with random weights in float64, and a copy of the model that it was made of."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
        model = model.double().eval()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter += 0.4 * torch.randn_like(parameter)
                if "wpe" in name and not positions:
                    parameter.zero_()
    plain = copy.deepcopy(model)
    architecture = type(model).__name__
    return build_bridge_from_module(model, architecture, hf_config=model.config).eval(), plain


def words(count: int = 3, length: int = 4, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Random words, and the same words with the symbol at position 1 changed."""
    generator = torch.Generator().manual_seed(seed)
    clean = torch.randint(0, VOCABULARY, (count, length), generator=generator)
    corrupted = clean.clone()
    corrupted[:, 1] = (clean[:, 1] + 1 + torch.arange(count) % (VOCABULARY - 1)) % VOCABULARY
    return clean, corrupted
