"""Transformers whose weights are set by hand: the truth that a search for circuits is scored on.

Names of nodes: "embed" (the stream before block 0: tokens and learned positions), "L0H1", "L0 mlp"
send; "L1H2.q", "L1H2.k", "L1H2.v", "L1 mlp" and "logits" receive. An edge is (sender, receiver).

The stream is cut into parts of its own for each thing that is written. All other heads, and the
MLPs that say so, are decoys: random weights that read everything and write into a part that neither
a planted piece nor the unembedding reads. They are busy, and without a norm their effect is
exactly zero.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp.causal.metrics import ReadAt, logit_at
from models.choices import Norm
from models.languages import BOS_ID, END_ID, Vocabulary
from models.model_config import ModelConfig
from models.transformer.attention import Attention
from models.transformer.mlp import MLP
from models.transformer.model import HookedTransformer

Edge = tuple[str, str]

SHARP = 50.0  # of a score that wins: the others get e^-50 of the attention
DECOY_WIDTH = 8
COUNTER_LENGTH, INDUCTION_LENGTH, CHAIN_LENGTH, TWO_LENGTH = 12, 7, 6, 5


@dataclass(frozen=True)
class Planted:
    """A model, what it does, and pairs of words that tell the circuit.

    Attributes:
        about: what the model computes.
        model: in evaluation mode.
        pairs: clean and corrupted tokens, [pair, pos] each; row i of both is a pair.
        token: its logit at the last position is the metric.
        heads: (layer, head) of the circuit; every other head is a decoy.
        edges: those that carry a difference between clean and corrupted to the metric in some pair.
            What is the same in both words, as the positions that aim a head, is not among them.
    """

    about: str
    model: HookedTransformer
    pairs: tuple[Int[Tensor, "pair pos"], Int[Tensor, "pair pos"]]
    token: int
    heads: frozenset[tuple[int, int]]
    edges: frozenset[Edge]

    @property
    def metric(self) -> ReadAt:
        return logit_at(self.token)

    @property
    def decoys(self) -> list[tuple[int, int]]:
        """(layer, head) of the decoys."""
        config = self.model.config
        heads = [(i, head) for i in range(config.n_layers) for head in range(config.n_heads)]
        return [head for head in heads if head not in self.heads]

    @property
    def decoy_mlps(self) -> list[int]:
        """The layers whose MLP is a decoy."""
        if self.model.config.mlp == "none":
            return []
        senders = {sender for sender, _ in self.edges}
        return [i for i in range(self.model.config.n_layers) if f"L{i} mlp" not in senders]


@torch.no_grad()
def counter() -> Planted:
    """END's logit is 1/2 - (N + 1) |mean|, where the mean of +1 per a, -1 per b and 0 for BOS is
    over the word: 1/2 if the numbers are equal, else at most -1/2 up to N = 12 symbols.

    The order is not checked: the language is that of equally many a and b, which holds a^n b^n.
    """
    vocabulary = Vocabulary(("a", "b"))
    token, mean, verdict, junk = _parts(len(vocabulary), 1, 1, DECOY_WIDTH)
    model = _blank(vocabulary, junk.stop, head_width=4, d_mlp=12, positions="none", act_fn="relu")
    model.W_E[:, token] = torch.eye(len(vocabulary))
    attn, mlp = _attention(model, 0), _mlp(model, 0)
    attn.W_V[1, token, 0] = torch.tensor([0.0, 0.0, 1.0, -1.0])  # queries and keys 0: the mean
    attn.W_O[1, 0, mean] = 1
    mlp.W_in[mean, :2] = torch.tensor([1.0, -1.0])  # |m| = relu(m) + relu(-m)
    mlp.W_out[:2, verdict] = -float(COUNTER_LENGTH + 1)
    model.W_U[verdict, END_ID] = 1
    model.b_U[END_ID] = 0.5
    heads = frozenset({(0, 1)})
    _add_decoys(model, heads, [1], junk)
    pairs = [("aaaabbbb", "aaabbbbb"), ("abababab", "abababaa"), ("bbbbaaaa", "bbabaaaa")]
    return Planted(
        "are there as many a as b? By the mean of +1 and -1, in whatever order",
        model,
        _tokens(model, pairs),
        END_ID,
        heads,
        frozenset({("embed", "L0H1.v"), ("L0H1", "L0 mlp"), ("L0 mlp", "logits")}),
    )


@torch.no_grad()
def induction() -> Planted:
    """A symbol's logit is its share among those that followed earlier occurrences of the last
    symbol, less 1/14: above zero for those that did, up to 7 symbols.

    L0H1 writes the symbol before; L1H2 looks from a symbol to where it was the symbol before, or to
    BOS, whose value is zero, where there is no such place. Positions alone aim L0H1, and BOS is BOS
    in all words: what embed gives to L0H1.q, L0H1.k and L1H2.k carries no difference.
    """
    vocabulary = Vocabulary(("a", "b", "c", "d"))
    size, n_ctx = len(vocabulary), INDUCTION_LENGTH + 1
    token, position, before, after, junk = _parts(size, n_ctx, size, size, DECOY_WIDTH)
    model = _blank(vocabulary, junk.stop, head_width=n_ctx, d_mlp=12, n_ctx=n_ctx)
    _embed(model, token, position)
    _copy_from_previous(_attention(model, 0), 1, position, token, before)
    attn, symbols = _attention(model, 1), slice(2, size)
    sharp = SHARP / attn.scale
    attn.W_Q[2, token, symbols] = sharp * torch.eye(size)[:, symbols]
    attn.W_K[2, before, symbols] = torch.eye(size)[:, symbols]
    attn.b_Q[2, 0] = sharp / 2  # BOS, half as good as a match: where to rest without one
    attn.W_K[2, token.start + BOS_ID, 0] = 1
    attn.W_V[2, token, symbols] = torch.eye(size)[:, symbols]
    attn.W_O[2, :size, after] = torch.eye(size)
    model.W_U[after] = torch.eye(size)
    model.b_U[:] = -0.5 / INDUCTION_LENGTH
    heads = frozenset({(0, 1), (1, 2)})
    _add_decoys(model, heads, [0, 1], junk)
    pairs = [
        ("cabdca", "ccbdca"),  # the symbol before the one to copy
        ("dabdda", "dcbdda"),
        ("cabdda", "cacdda"),  # the one to copy
        ("abdcca", "addcca"),
        ("dabcda", "dabcdc"),  # the one that asks
        ("abcdda", "abcddc"),
        ("bcabda", "dcacba"),  # several at once
    ]
    return Planted(
        "what followed the last symbol earlier? By the symbol before, and a look-up",
        model,
        _tokens(model, pairs),
        vocabulary.ids["b"],
        heads,
        frozenset(
            {
                ("embed", "L0H1.v"),
                ("L0H1", "L1H2.k"),
                ("embed", "L1H2.q"),
                ("embed", "L1H2.v"),
                ("L1H2", "logits"),
            }
        ),
    )


@torch.no_grad()
def chain(norm: Norm = "none") -> Planted:
    """The logit of the symbol two back is 1/2, of all others -1/2, up to 6 symbols; BOS where the
    word has not begun two back.

    L0H2 copies the symbol from p - 1 to p, L1H0 copies what that wrote from p - 1 to p. With a norm
    the logits are scaled and shifted, and a decoy moves them through the scale; the highest of them
    stays the symbol two back.
    """
    vocabulary = Vocabulary(("a", "b", "c", "d"))
    size, n_ctx = len(vocabulary), CHAIN_LENGTH + 1
    token, position, before, twice, junk = _parts(size, n_ctx, size, size, DECOY_WIDTH)
    model = _blank(vocabulary, junk.stop, head_width=n_ctx, mlp="none", n_ctx=n_ctx, norm=norm)
    _embed(model, token, position)
    _copy_from_previous(_attention(model, 0), 2, position, token, before)
    _copy_from_previous(_attention(model, 1), 0, position, before, twice)
    model.W_U[twice] = torch.eye(size)
    model.b_U[:] = -0.5
    heads = frozenset({(0, 2), (1, 0)})
    _add_decoys(model, heads, [], junk)
    pairs = [
        ("acdbca", "acdaca"),
        ("bbbbbb", "bbbcbb"),
        ("dcabad", "dcadad"),
        ("abcbda", "cdacab"),  # several at once
    ]
    return Planted(
        "which symbol is two back? By two copies from one position to the next",
        model,
        _tokens(model, pairs),
        vocabulary.ids["b"],
        heads,
        frozenset({("embed", "L0H2.v"), ("L0H2", "L1H0.v"), ("L1H0", "logits")}),
    )


@torch.no_grad()
def _two_heads(
    about: str, symbols: str, hidden: list[float], pairs: list[tuple[str, str]]
) -> Planted:
    """L0H1 and L0H2 each count a symbol, the MLP makes END's logit of the sum s of both counts, up
    to 5 symbols: hidden[0] relu(s) + hidden[1] relu(s - 1) - 1/2.

    A count is the mean of 6 per symbol counted: it is right at the last of 5 symbols.
    """
    vocabulary = Vocabulary(("a", "b", "c"))
    token, counts, verdict, junk = _parts(len(vocabulary), 1, 1, DECOY_WIDTH)
    model = _blank(vocabulary, junk.stop, head_width=4, d_mlp=12, positions="none", act_fn="relu")
    model.W_E[:, token] = torch.eye(len(vocabulary))
    attn, mlp = _attention(model, 0), _mlp(model, 0)
    for head, symbol in zip((1, 2), symbols, strict=True):
        attn.W_V[head, token.start + vocabulary.ids[symbol], 0] = TWO_LENGTH + 1.0
        attn.W_O[head, 0, counts] = 1
    mlp.W_in[counts, :2] = 1.0
    mlp.b_in[1] = -1.0
    mlp.W_out[:2, verdict] = torch.tensor(hidden)[:, None]
    model.W_U[verdict, END_ID] = 1
    model.b_U[END_ID] = -0.5
    heads = frozenset({(0, 1), (0, 2)})
    _add_decoys(model, heads, [1], junk)
    ways = [[("embed", f"L0H{head}.v"), (f"L0H{head}", "L0 mlp")] for head in (1, 2)]
    edges = frozenset({*ways[0], *ways[1], ("L0 mlp", "logits")})
    return Planted(about, model, _tokens(model, pairs), END_ID, heads, edges)


def either() -> Planted:
    """OR: L0H1 and L0H2 both count the a; one a in either count is enough."""
    pairs = [("bbabb", "bbbbb"), ("acbbc", "ccbbc"), ("cccca", "ccccb")]
    return _two_heads("is there an a? By two heads, each enough", "aa", [1.0, -1.0], pairs)


def both() -> Planted:
    """AND: L0H1 counts the a, L0H2 the c; one of each is needed. Corrupted words have neither."""
    pairs = [("babcb", "bbbbb"), ("acbbb", "bbbbb"), ("bcbba", "bbbbb")]
    return _two_heads("is there an a and a c? By two heads, both needed", "ac", [0.0, 1.0], pairs)


PLANTED = {"counter": counter, "induction": induction, "chain": chain}
TOGETHER = {"either": either, "both": both}
"""Of which single effects show nothing in one of the two directions."""


def _parts(*widths: int) -> list[slice]:
    """The stream, cut into parts of these widths."""
    ends = list(accumulate(widths))
    return [slice(end - width, end) for end, width in zip(ends, widths, strict=True)]


def _blank(vocabulary: Vocabulary, d_model: int, **changes: Any) -> HookedTransformer:
    """Two layers of four heads, every weight zero but those of the norms."""
    values = {"norm": "none", "positions": "learned", **changes}
    model = HookedTransformer(ModelConfig(d_model=d_model, **values), vocabulary).eval()
    for name, parameter in model.named_parameters():
        if ".ln" not in name:
            parameter.zero_()
    return model


def _embed(model: HookedTransformer, token: slice, position: slice) -> None:
    """Tokens and positions, one-hot."""
    assert model.pos_embed is not None
    model.W_E[:, token] = torch.eye(len(model.W_E))
    model.pos_embed.weight[:, position] = torch.eye(model.config.n_ctx)


def _copy_from_previous(
    attn: Attention, head: int, position: slice, source: slice, target: slice
) -> None:
    """Lets a head attend to the position before, BOS to itself, and copy one part to another."""
    positions, width = position.stop - position.start, source.stop - source.start
    attn.W_Q[head, position] = SHARP / attn.scale * torch.eye(positions).roll(-1, dims=1)
    attn.W_K[head, position] = torch.eye(positions)
    attn.W_V[head, source, :width] = torch.eye(width)
    attn.W_O[head, :width, target] = torch.eye(width)


def _add_decoys(
    model: HookedTransformer, heads: Collection[tuple[int, int]], mlps: Collection[int], junk: slice
) -> None:
    """Random weights for all heads but the given ones, and for the MLPs of the given layers."""
    generator = torch.Generator().manual_seed(0)

    def draw(weight: Tensor) -> None:
        weight.copy_(torch.randn(weight.shape, generator=generator))

    def draw_writer(weight: Float[Tensor, "hidden d_model"]) -> None:
        """Writes something of the size of what is planted; its mean, which a norm sees, is 0."""
        written = torch.randn(len(weight), junk.stop - junk.start, generator=generator)
        weight[:, junk] = 0.5 * len(weight) ** -0.5 * (written - written.mean(1, keepdim=True))

    for layer in range(model.config.n_layers):
        attn = _attention(model, layer)
        for head in range(model.config.n_heads):
            if (layer, head) not in heads:
                for weight in (attn.W_Q, attn.W_K, attn.W_V):
                    draw(weight[head])
                draw_writer(attn.W_O[head])
        if layer in mlps:
            draw(_mlp(model, layer).W_in)
            draw_writer(_mlp(model, layer).W_out)


def _tokens(
    model: HookedTransformer, pairs: Sequence[tuple[str, str]]
) -> tuple[Int[Tensor, "pair pos"], Int[Tensor, "pair pos"]]:
    clean, corrupted = zip(*pairs, strict=True)
    return model.to_tokens(clean), model.to_tokens(corrupted)


def _attention(model: HookedTransformer, layer: int) -> Attention:
    attn = model.blocks[layer].attn
    assert isinstance(attn, Attention)
    return attn


def _mlp(model: HookedTransformer, layer: int) -> MLP:
    mlp = model.blocks[layer].mlp
    assert isinstance(mlp, MLP)
    return mlp
