"""What the hooks cost: our model against the same mathematics without them, and in TransformerLens.

- ``Plain`` below is the model as one would write it in PyTorch if nobody ever looked inside.
- ``TransformerBridge.boot_native`` is TransformerLens' own small decoder. It always has biases and
  a table of positions, so there our model gets both too. It computes every pattern of attention;
  ours takes PyTorch's fused attention as long as nobody looks. So both are also timed while they
  keep the same activations, patterns among them.

Each peer gets our weights and must give our logits before it is timed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, scaled_dot_product_attention
from transformer_lens.config import TransformerBridgeConfig
from transformer_lens.model_bridge.sources import boot_native

from models.config import TrainConfig
from models.languages import language
from models.model_config import ModelConfig
from models.objectives import objective
from models.objectives.base import Batch
from models.training.recipes import recipe
from models.transformer.model import HookedTransformer
from tests.benchmarks.measure import Result, Side, Work, compare

PLAIN, BRIDGE = "plain PyTorch", "TransformerLens"
NO_SLOWER, FASTER = 1 / 1.1, 1.3  # than plain PyTorch; than TransformerLens
KEPT = ("hook_resid_pre", "attn.hook_pattern", "attn.hook_z", "hook_mlp_out", "hook_resid_post")


class PlainBlock(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width = config.d_model
        self.n_heads, self.act = config.n_heads, getattr(nn.functional, config.act_fn)
        self.ln1 = nn.LayerNorm(width, config.eps, bias=config.bias)
        self.attn = nn.ModuleDict({n: nn.Linear(width, width, bias=config.bias) for n in "qkvo"})
        self.ln2 = nn.LayerNorm(width, config.eps, bias=config.bias)
        self.mlp = nn.ModuleDict(
            {
                "fc_in": nn.Linear(width, config.d_mlp, bias=config.bias),
                "fc_out": nn.Linear(config.d_mlp, width, bias=config.bias),
            }
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.ln1(x))
        return x + self.mlp["fc_out"](self.act(self.mlp["fc_in"](self.ln2(x))))

    def attention(self, x: Tensor) -> Tensor:
        heads = (*x.shape[:2], self.n_heads, -1)
        q, k, v = (self.attn[name](x).view(heads).transpose(1, 2) for name in "qkv")
        z = scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.attn["o"](z.transpose(1, 2).reshape(x.shape))


class Plain(nn.Module):
    """The decoder without hooks; its parameters have the same names as ours."""

    def __init__(self, config: ModelConfig, d_vocab: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(d_vocab, config.d_model)
        self.blocks = nn.ModuleList(PlainBlock(config) for _ in range(config.n_layers))
        self.unembed = nn.ModuleDict({"linear": nn.Linear(config.d_model, d_vocab)})
        self.eps = config.eps

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.unembed["linear"](layer_norm(x, x.shape[-1:], eps=self.eps))


def plain(ours: HookedTransformer) -> Plain:
    """The same weights without hooks."""
    peer = Plain(ours.config, len(ours.vocabulary))
    peer.load_state_dict(ours.state_dict())
    return peer


def bridge(ours: HookedTransformer) -> nn.Module:
    """The same weights in TransformerLens: it has no output bias, so ours must be zero."""
    config = ours.config
    peer = boot_native(
        TransformerBridgeConfig(
            d_model=config.d_model,
            d_head=config.d_head,
            n_heads=config.n_heads,
            n_layers=config.n_layers,
            n_ctx=config.n_ctx,
            d_mlp=config.d_mlp,
            d_vocab=len(ours.vocabulary),
            act_fn=config.act_fn,
            eps=config.eps,
            normalization_type="LN",
            positional_embedding_type="standard",
            seed=0,
        )
    )
    theirs = {"mlp.fc_": "mlp.", "unembed.linear.": "unembed."}
    weights = ours.state_dict()
    for old, new in theirs.items():
        weights = {name.replace(old, new): tensor for name, tensor in weights.items()}
    peer.load_state_dict(weights, strict=False)  # the gain of the final norm stays 1
    return cast(nn.Module, peer)


def example(config: TrainConfig) -> tuple[HookedTransformer, Batch]:
    """A model with random numbers in every parameter but the output bias, and a training batch."""
    known = language(config.language)
    rng = np.random.default_rng(config.seed)
    words = known.sample(rng, config.batch_size, known.lengths(config.max_n)).words
    model = HookedTransformer(config.model, known.vocabulary, config.seed)
    generator = torch.Generator().manual_seed(config.seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name != "unembed.linear.bias":  # fresh biases are zero: parity would not see them
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.1)
    return model, objective(config.objective).batch(known, words)


def check_parity(ours: nn.Module, peer: nn.Module, batch: Batch, tolerance: float) -> None:
    """Raises AssertionError unless both give the same logits."""
    with torch.no_grad():
        torch.testing.assert_close(
            peer(batch.tokens), ours(batch.tokens), atol=tolerance, rtol=tolerance
        )


def forward_pass(model: nn.Module, batch: Batch) -> Work:
    @torch.no_grad()
    def work() -> Tensor:
        return cast(Tensor, model(batch.tokens))

    return work


def training_step(model: nn.Module, batch: Batch, config: TrainConfig) -> Work:
    """The arithmetic of ``Trainer.advance``; at a rate of 0 every round does the same step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, betas=(0.9, 0.99), weight_decay=0.0)
    taught = objective(config.objective)

    def work() -> float:
        optimizer.zero_grad()
        value = taught.loss(model(batch.tokens), batch)
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), config.clip)
        optimizer.step()
        return float(value.detach())

    return work


def cached(model: Any, batch: Batch, hooks: list[str]) -> Callable[[], dict[str, Tensor]]:
    @torch.no_grad()
    def work() -> dict[str, Tensor]:
        _, cache = model.run_with_cache(batch.tokens, names_filter=hooks)
        return {hook: cache[hook] for hook in hooks}

    return work


def against(
    config: TrainConfig,
    name: str,
    build: Callable[[HookedTransformer], nn.Module],
    target: float,
    tolerance: float,
) -> Iterator[Result]:
    """Forward pass and training step against one peer; the task names the shape of the tokens."""
    ours, batch = example(config)
    peer = build(ours)
    check_parity(ours, peer, batch, tolerance)
    shape = list(batch.tokens.shape)
    does = {
        PLAIN: "the same model without hooks",
        BRIDGE: "the same weights, hooks that nobody uses",
    }
    for task, work in {
        "forward pass": forward_pass,
        "training step": partial(training_step, config=config),
    }.items():
        yield compare(
            f"{task} {shape}",
            Side("ours", "hooks that nobody uses", work(ours, batch)),
            Side(name, does[name], work(peer, batch)),
            target,
        )
    if name == BRIDGE:
        hooks = [f"blocks.{layer}.{h}" for layer in range(config.model.n_layers) for h in KEPT]
        mine, theirs = (cached(model.eval(), batch, hooks) for model in (ours, peer))
        torch.testing.assert_close(mine(), theirs(), atol=tolerance, rtol=tolerance)
        yield compare(
            f"forward pass that keeps {len(hooks)} activations {shape}",
            Side("ours", "run_with_cache, patterns too", mine),
            Side(name, "run_with_cache, patterns too", theirs),
            target,
            rounds=50,
        )


def model_speed() -> Iterator[Result]:
    """Every comparison of this file."""
    config = recipe("anbn")
    yield from against(config, PLAIN, plain, NO_SLOWER, tolerance=1e-5)
    longest = language(config.language).lengths(config.max_n)[-1] + 1
    bridged = replace(config.model, bias=True, positions="learned", n_ctx=longest)
    yield from against(replace(config, model=bridged), BRIDGE, bridge, FASTER, tolerance=1e-4)
