"""What one set of parts costs: a forward pass of every kind against plain PyTorch for it alone.

The peers below are what one would write for one kind of model and one length of words: the fused
attention wherever a score is a dot product, and masks, angles, biases and buckets made beforehand.
Each gets our weights, under the same names, and must give our logits before it is timed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad, rms_norm, scaled_dot_product_attention

from models.base import LanguageModel, build
from models.choices import ABSOLUTE, Counting
from models.config import TrainConfig
from models.languages import BOS_ID, END_ID, language
from models.model_config import ModelConfig
from models.objectives import objective
from models.objectives.base import Batch
from models.rivals.ngram import HookedNGram
from models.training.recipes import recipe
from models.transformer.positions import (
    T5_BUCKETS,
    alibi,
    distances,
    rotations,
    sinusoidal,
    t5_buckets,
)
from tests.benchmarks.measure import Result, Side, compare
from tests.benchmarks.model_speed import PLAIN, check_parity, forward_pass

NO_SLOWER = 1 / 1.15  # at most so much more than plain PyTorch's time
ROUNDS = 50

VARIANTS: dict[str, dict[str, Any]] = {
    "no positions": {},
    **{f"{p} positions": {"positions": p} for p in ("learned", "sinusoidal", "rotary")},
    **{f"{p} positions": {"positions": p} for p in ("alibi", "t5")},
    "dot scores": {"scores": "dot"},
    "additive scores": {"scores": "additive"},
    "strictly causal": {"mask": "strictly_causal"},
    "bidirectional": {"mask": "bidirectional"},
    "encoder, alibi": {"mask": "bidirectional", "positions": "alibi"},
    "post-norm": {"norm_placement": "post"},
    "sandwich": {"norm_placement": "sandwich"},
    "RMSNorm": {"norm": "rms"},
    "RMSNorm, post": {"norm": "rms", "norm_placement": "post"},
    "RMSNorm, sandwich": {"norm": "rms", "norm_placement": "sandwich"},
    "no norm": {"norm": "none"},
    "gated MLP": {"mlp": "gated"},
    "attention only": {"mlp": "none"},
    "averaging head, head norm": {"counting": Counting(averaging_heads=1, head_norm=True)},
    "counting head": {"counting": Counting(averaging_heads=1, counters=True)},
}
RIVALS: dict[str, dict[str, Any]] = {
    "LSTM": {"architecture": "lstm"},
    "GRU": {"architecture": "gru"},
    "CNN": {"architecture": "cnn"},
    "3-gram": {"architecture": "ngram"},
}


# -- Transformers -------------------------------------------------------------------------------


def plain_norm(config: ModelConfig, affine: bool = True) -> nn.Module:
    if config.norm == "layer":
        return nn.LayerNorm(config.d_model, config.eps, affine, bias=config.bias)
    if config.norm == "rms":
        return nn.RMSNorm(config.d_model, config.eps, affine)
    return nn.Identity()


class PlainAttention(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        inner, self.averaging = config.n_heads * config.d_head, config.counting.averaging_heads
        looks = inner - self.averaging * config.d_head
        self.heads = (config.n_heads, config.d_head)
        self.q, self.k, self.v = (
            nn.Linear(config.d_model, width, bias=config.bias) for width in (looks, looks, inner)
        )
        self.eps = config.eps if config.counting.head_norm else None
        self.counters = config.counting.counters
        self.o = nn.Linear(inner, config.d_model, bias=config.bias)
        self.scale = config.d_head**-0.5 if config.scores == "scaled_dot" else 1.0
        self.strict = config.mask == "strictly_causal"
        if config.scores == "additive":
            self.w_score = nn.Parameter(torch.ones(self.heads))

    def forward(self, x: Tensor, mask: Tensor | None, angles: tuple[Tensor, ...] | None) -> Tensor:
        q, k, v = (
            linear(x).view(*x.shape[:2], -1, self.heads[1]).transpose(1, 2)
            for linear in (self.q, self.k, self.v)
        )
        if self.counters:
            own, others = v[:, : self.averaging], v[:, self.averaging :]
            v = torch.cat([(torch.tanh(32 * own - 16) + torch.tanh(32 * own + 16)) / 2, others], 1)
        if self.averaging:
            q, k = (torch.cat([torch.zeros_like(v[:, : self.averaging]), y], 1) for y in (q, k))
        if angles is not None:
            q, k = self.turn(q, *angles), self.turn(k, *angles)
        if hasattr(self, "w_score"):
            z = self.additive(q, k, mask) @ v
        else:
            z = scaled_dot_product_attention(
                q, k, v, mask, is_causal=mask is None, scale=self.scale
            )
        if self.strict:
            z[:, :, 0] = 0.0
        if self.eps is not None:
            z = rms_norm(z, z.shape[-1:], eps=self.eps)
        if self.counters:
            own, others = z[:, : self.averaging], z[:, self.averaging :]
            s = own * torch.arange(1, z.shape[2] + 1)[:, None]
            z = torch.cat([s * (1 + s**2).rsqrt(), others], 1)
        return self.o(z.transpose(1, 2).reshape(*x.shape[:2], -1))

    @staticmethod
    def turn(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        first, second = x.chunk(2, dim=-1)
        return x * cosine + torch.cat([-second, first], dim=-1) * sine

    def additive(self, q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
        assert mask is not None
        scores = (q[:, :, :, None] + k[:, :, None]).tanh() @ self.w_score[:, None, :, None]
        return scores.squeeze(-1).masked_fill(~mask, -math.inf).softmax(-1)


class PlainMLP(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        if config.mlp == "gated":
            self.fc_gate = nn.Linear(config.d_model, config.d_mlp, bias=config.bias)
        self.fc_in = nn.Linear(config.d_model, config.d_mlp, bias=config.bias)
        self.fc_out = nn.Linear(config.d_mlp, config.d_model, bias=config.bias)
        self.gated, self.act = config.mlp == "gated", getattr(nn.functional, config.act_fn)

    def forward(self, x: Tensor) -> Tensor:
        if self.gated:
            return self.fc_out(self.act(self.fc_gate(x)) * self.fc_in(x))
        return self.fc_out(self.act(self.fc_in(x)))


class PlainBlock(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.placement, self.has_mlp = config.norm_placement, config.mlp != "none"
        self.ln1, self.attn = plain_norm(config), PlainAttention(config)
        if self.has_mlp:
            self.ln2, self.mlp = plain_norm(config), PlainMLP(config)
        if self.placement == "sandwich":
            self.ln1_post = plain_norm(config)
            if self.has_mlp:
                self.ln2_post = plain_norm(config)

    def forward(self, x: Tensor, mask: Tensor | None, angles: tuple[Tensor, ...] | None) -> Tensor:
        if self.placement == "post":
            x = self.ln1(x + self.attn(x, mask, angles))
            return self.ln2(x + self.mlp(x)) if self.has_mlp else x
        if self.placement == "sandwich":
            x = x + self.ln1_post(self.attn(self.ln1(x), mask, angles))
            return x + self.ln2_post(self.mlp(self.ln2(x))) if self.has_mlp else x
        x = x + self.attn(self.ln1(x), mask, angles)
        return x + self.mlp(self.ln2(x)) if self.has_mlp else x


class PlainTransformer(nn.Module):
    """For words of one length."""

    def __init__(self, config: ModelConfig, d_vocab: int, length: int) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(d_vocab, config.d_model)
        if config.positions == "learned":
            self.pos_embed = nn.Embedding(config.n_ctx, config.d_model)
        if config.positions == "t5":
            self.relative = nn.Embedding(T5_BUCKETS, config.n_heads)
        self.blocks = nn.ModuleList(PlainBlock(config) for _ in range(config.n_layers))
        post = config.norm_placement == "post"
        self.ln_final = nn.Identity() if post else plain_norm(config, affine=False)
        self.unembed = nn.ModuleDict({"linear": nn.Linear(config.d_model, d_vocab)})
        self._prepare(length)

    def _prepare(self, length: int) -> None:
        config = self.config
        may = torch.ones(length, length, dtype=torch.bool)
        if not config.sees_ahead:
            may = may.tril(-1 if config.mask == "strictly_causal" else 0)
        self.may = may
        self.hidden = torch.zeros(length, length).masked_fill(~may, -math.inf)
        self.bias = alibi(config.n_heads, length) if config.positions == "alibi" else None
        if self.bias is not None:
            self.bias = self.bias + self.hidden
        self.buckets = t5_buckets(distances(length), config.sees_ahead)
        self.angles: tuple[Tensor, ...] | None = None
        if config.positions == "rotary":
            self.angles = tuple(table[:, 0] for table in rotations(length, config.d_head))
        self.table = sinusoidal(torch.arange(length), config.d_model)

    def mask(self, tokens: Tensor) -> Tensor | None:
        """What the fused attention gets: None for causal alone, flags, or numbers to be added."""
        config, bias = self.config, self.bias
        if config.positions == "t5":
            bias = self.relative(self.buckets).permute(2, 0, 1) + self.hidden
        if config.sees_ahead:
            valid = (tokens != END_ID)[:, None, None]
            return valid if bias is None else bias.masked_fill(~valid, -math.inf)
        if bias is not None:
            return bias[None]  # with three axes PyTorch would not take the fused attention
        return self.may if config.mask != "causal" or config.scores == "additive" else None

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        if self.config.positions in ABSOLUTE:
            learned = self.config.positions == "learned"
            x = x + (self.pos_embed.weight[: tokens.shape[1]] if learned else self.table)
        mask = self.mask(tokens)
        for block in self.blocks:
            x = block(x, mask, self.angles)
        return self.unembed["linear"](self.ln_final(x))


# -- rivals -------------------------------------------------------------------------------------


class PlainRecurrent(nn.Module):
    """All layers in one module."""

    def __init__(self, ours: LanguageModel) -> None:
        super().__init__()
        config, weights = ours.config, ours.state_dict()
        kind = {"lstm": nn.LSTM, "gru": nn.GRU}[config.architecture]
        width = config.d_model
        self.rnn = kind(width, width, config.n_layers, bias=config.bias, batch_first=True)
        self.embed = nn.Embedding.from_pretrained(weights["embed.weight"])
        self.unembed = nn.Linear(width, len(ours.vocabulary))
        rnn = {
            name.split("rnn.")[1].replace("_l0", f"_l{name.split('.')[1]}"): value
            for name, value in weights.items()
            if ".rnn." in name
        }
        self.rnn.load_state_dict(rnn)
        kinds = ("weight", "bias")
        self.unembed.load_state_dict({kind: weights[f"unembed.linear.{kind}"] for kind in kinds})

    def forward(self, tokens: Tensor) -> Tensor:
        return self.unembed(self.rnn(self.embed(tokens))[0])


class PlainConvolution(nn.Module):
    """Pre-norm layers of convolution, activation and linear map."""

    def __init__(self, ours: LanguageModel) -> None:
        super().__init__()
        config, width = ours.config, ours.config.d_model
        self.embed = nn.Embedding(len(ours.vocabulary), width)
        self.act, self.past = getattr(nn.functional, config.act_fn), config.kernel_size - 1
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "ln1": plain_norm(config),
                    "conv": nn.ModuleDict(
                        {
                            "kernel": nn.Conv1d(width, width, config.kernel_size, bias=config.bias),
                            "out": nn.Linear(width, width, bias=config.bias),
                        }
                    ),
                }
            )
            for _ in range(config.n_layers)
        )
        self.ln_final = plain_norm(config, affine=False)
        self.unembed = nn.ModuleDict({"linear": nn.Linear(width, len(ours.vocabulary))})
        self.load_state_dict(ours.state_dict())

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            seen = pad(block["ln1"](x).transpose(1, 2), (self.past, 0))
            hidden = self.act(block["conv"]["kernel"](seen))
            x = x + block["conv"]["out"](hidden.transpose(1, 2))
        return self.unembed["linear"](self.ln_final(x))


class PlainNGram(nn.Module):
    """One look into a table of logits: of every context, counted and smoothed beforehand."""

    def __init__(self, ours: HookedNGram) -> None:
        super().__init__()
        self.d_vocab, self.length = len(ours.vocabulary), ours.config.order - 1
        p = torch.tensor(0.5)
        for k in range(ours.config.order):
            allowed, seen = ours.get_buffer(f"allowed_{k}"), ours.get_buffer(f"seen_{k}")
            shorter = p if k == 0 else p.repeat(self.d_vocab, 1)  # the oldest token counts most
            p = (allowed + shorter) / (seen + 1)
        self.table = torch.logit(p, eps=1e-6).float()

    def forward(self, tokens: Tensor) -> Tensor:
        n = tokens.shape[1]
        window = pad(tokens, (self.length - 1, 0), value=BOS_ID)
        row = sum(
            window[:, k : k + n] * self.d_vocab ** (self.length - 1 - k) for k in range(self.length)
        )
        return nn.functional.embedding(row, self.table)


# -- side by side -------------------------------------------------------------------------------


def example(config: TrainConfig) -> tuple[LanguageModel, Batch]:
    """A model with random numbers in every parameter, and a training batch of the recipe's."""
    known = language(config.language)
    rng = np.random.default_rng(config.seed)
    words = known.sample(rng, config.batch_size, known.lengths(config.max_n)).words
    model = build(config.model, known.vocabulary, config.seed).eval()
    batch = objective(config.objective).batch(known, words, config.model.readout)
    generator = torch.Generator().manual_seed(config.seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.1)
    if isinstance(model, HookedNGram):
        model.count(batch.tokens, batch.target, batch.weight)
    return model, batch


def plain(ours: LanguageModel, length: int) -> nn.Module:
    """The same weights in plain PyTorch."""
    if isinstance(ours, HookedNGram):
        return PlainNGram(ours)
    if ours.config.architecture == "transformer":
        peer = PlainTransformer(ours.config, len(ours.vocabulary), length)
        peer.load_state_dict(ours.state_dict())
        return peer
    return (PlainConvolution if ours.config.architecture == "cnn" else PlainRecurrent)(ours)


def variant_speed() -> Iterator[Result]:
    """A forward pass of every kind, of the words of the recipe for anbn."""
    config = recipe("anbn")
    kinds = {name: replace(config.model, **changes) for name, changes in VARIANTS.items()}
    kinds |= {name: ModelConfig(act_fn="relu", **changes) for name, changes in RIVALS.items()}
    for name, model in kinds.items():
        taught = "verdict" if model.sees_ahead else config.objective
        ours, batch = example(replace(config, model=model, objective=taught))
        peer = plain(ours, batch.tokens.shape[1]).eval()
        check_parity(ours, peer, batch, tolerance=1e-4)
        yield compare(
            f"forward pass, {name}",
            Side("ours", "hooks that nobody uses", forward_pass(ours, batch)),
            Side(PLAIN, "this one kind, masks made beforehand", forward_pass(peer, batch)),
            NO_SLOWER,
            ROUNDS,
        )
