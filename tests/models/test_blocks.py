"""Blocks of every kind against their equations, written out with loops, and against PyTorch's own.

Attention is equations 1-3, the post-norm block 4-6 and layer normalisation 7-8 of Thickstun, "The
Transformer Model in Equations"; the pre-norm block is that of Bishop, "Deep Learning", chapter 12.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from conftest import SMALL, stir
from torch import Tensor, nn

from models.choices import Counting
from models.model_config import ModelConfig
from models.transformer import attention as attention_module
from models.transformer.attention import Attention, additive_scores
from models.transformer.block import Block
from models.transformer.masks import allowed, masked_softmax
from models.transformer.model import HookedTransformer
from models.transformer.norm import Norm
from models.transformer.relations import Relations

Make = Callable[..., HookedTransformer]

D, N = 16, 6


def make(**changes: object) -> Block:
    return stir(Block(ModelConfig(**{**SMALL.__dict__, **changes}))).double().eval()


def inputs(batch: int = 2, seed: int = 5) -> Tensor:
    return torch.randn(batch, N, D, generator=torch.Generator().manual_seed(seed)).double()


def related(mask: str) -> Relations:
    return Relations() if mask == "causal" else Relations(may=allowed(mask, N)[:, None])


def close(ours: Tensor, expected: Tensor | np.ndarray, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(ours.detach(), torch.as_tensor(expected), rtol=0, atol=tolerance)


def spectator(activation: Tensor, hook: object) -> None:
    """A hook that only looks."""


# -- the equations ------------------------------------------------------------------------------


def numbers(parameter: Tensor | None, like: int) -> np.ndarray:
    return np.zeros(like) if parameter is None else parameter.detach().numpy()


def norm_by_hand(norm: Norm | None, x: np.ndarray) -> np.ndarray:
    """Equations 7-8; RMSNorm takes no mean off and adds no beta."""
    if norm is None or norm.kind == "none":
        return x
    gamma, beta = numbers(norm.weight, x.shape[1]), numbers(norm.bias, x.shape[1])
    out = np.empty_like(x)
    for i, row in enumerate(x):
        mu = sum(row) / len(row) if norm.kind == "layer" else 0.0
        sigma = math.sqrt(sum((value - mu) ** 2 for value in row) / len(row) + norm.eps)
        for j, value in enumerate(row):
            out[i, j] = gamma[j] * (value - mu) / sigma + beta[j]
    return out


def score_by_hand(attn: Attention, h: int, q: np.ndarray, k: np.ndarray) -> float:
    if attn.w_score is not None:
        averaging = getattr(attn, "averaging", 0)
        if h < averaging:
            return 0.0
        w = attn.w_score.detach().numpy()[h - averaging]
        return sum(w[d] * math.tanh(q[d] + k[d]) for d in range(len(q)))
    if attn.scores == "linear":
        q, k = ([x + 1 if x > 0 else math.exp(x) for x in row] for row in (q, k))
        return math.log(sum(q[d] * k[d] for d in range(len(q))))
    dot = sum(q[d] * k[d] for d in range(len(q)))
    return dot / math.sqrt(len(q)) if attn.scores in ("scaled_dot", "identity") else dot


def step_by_hand(value: float) -> float:
    """Two logistic curves, one up at -1/2 and one up at 1/2."""
    up = [1 / (1 + math.exp(-64 * (value - threshold))) for threshold in (-0.5, 0.5)]
    return sum(up) - 1


def attention_by_hand(attn: Attention, x: np.ndarray, mask: str) -> np.ndarray:
    names = ("W_Q", "b_Q", "W_K", "b_K", "W_V", "b_V", "W_O")
    w_q, b_q, w_k, b_k, w_v, b_v, w_o = (getattr(attn, n).detach().numpy() for n in names)
    out = np.tile(attn.b_O.detach().numpy(), (len(x), 1))
    for h in range(len(w_q)):
        q, k, v = x @ w_q[h] + b_q[h], x @ w_k[h] + b_k[h], x @ w_v[h] + b_v[h]
        if h >= getattr(attn, "averaging", 0):
            q, k = norm_by_hand(attn.q_norm, q), norm_by_hand(attn.k_norm, k)
        counts = getattr(attn, "counters", False) and h < attn.averaging
        if counts:
            v = np.vectorize(step_by_hand)(v)
        for i in range(len(x)):
            last = {"causal": i + 1, "strictly_causal": i, "bidirectional": len(x)}[mask]
            score = [math.exp(score_by_hand(attn, h, q[i], k[j])) for j in range(last)]
            z = sum((score[j] / sum(score) * v[j] for j in range(last)), start=np.zeros(len(v[0])))
            if counts:
                s = sum((v[j] for j in range(last)), start=np.zeros(len(v[0])))
                z = s / np.sqrt(1 + s**2)
            elif isinstance(getattr(attn, "norm_z", None), Norm):
                z = z / math.sqrt(sum(z**2) / len(z) + attn.norm_z.eps)
            out[i] += z @ w_o[h]
    return out


ACT = {
    "relu": lambda value: max(value, 0.0),
    "gelu": lambda value: value * 0.5 * (1 + math.erf(value / math.sqrt(2))),
    "silu": lambda value: value / (1 + math.exp(-value)),
}


def mlp_by_hand(block: Block, x: np.ndarray, act_fn: str) -> np.ndarray:
    mlp, act = block.mlp, np.vectorize(ACT[act_fn])
    w_in, b_in, w_out, b_out = (
        getattr(mlp, n).detach().numpy() for n in ("W_in", "b_in", "W_out", "b_out")
    )
    if mlp.fc_gate is None:
        return act(x @ w_in + b_in) @ w_out + b_out
    gate = x @ mlp.W_gate.detach().numpy() + numbers(mlp.fc_gate.bias, len(b_in))
    return (act(gate) * (x @ w_in + b_in)) @ w_out + b_out


def block_by_hand(block: Block, x: Tensor, mask: str, act_fn: str) -> np.ndarray:
    def part(x: np.ndarray, work: Callable[[np.ndarray], np.ndarray], one: str) -> np.ndarray:
        norm = getattr(block, one)
        if block.placement == "post":
            return norm_by_hand(norm, x * block.residual + work(x))
        out = work(norm_by_hand(norm, x))
        if block.placement == "sandwich":
            out = norm_by_hand(getattr(block, f"{one}_post"), out)
        return x * block.residual + out

    rows = []
    for word in x.numpy():
        if block.parallel:
            y = norm_by_hand(block.ln1, word)
            u = word + attention_by_hand(block.attn, y, mask) + mlp_by_hand(block, y, act_fn)
            rows.append(u)
            continue
        u = part(word, lambda y: attention_by_hand(block.attn, y, mask), "ln1")
        if block.mlp is not None:
            u = part(u, lambda y: mlp_by_hand(block, y, act_fn), "ln2")
        rows.append(u)
    return np.stack(rows)


def check(mask: str = "causal", **changes: object) -> None:
    """The block equals its equations, on the fused path and through every hook."""
    block = make(mask=mask, **changes)
    x, relations = inputs(), related(mask)
    expected = block_by_hand(block, x, mask, block_act(changes))
    assert np.abs(expected - x.numpy()).max() > 0.5
    close(block(x, relations), expected)
    for name, module in block.named_modules():
        if "hook_" in name:
            module.add_hook(spectator)
    close(block(x, relations), expected)


def block_act(changes: dict[str, object]) -> str:
    return str(changes.get("act_fn", SMALL.act_fn))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("mask", ["causal", "strictly_causal", "bidirectional"])
@pytest.mark.parametrize("placement", ["pre", "post", "sandwich"])
@pytest.mark.parametrize("residual", [True, False])
def test_the_block_is_its_equations(placement: str, mask: str, bias: bool, residual: bool) -> None:
    check(mask, norm_placement=placement, bias=bias, act_fn="relu", residual=residual)


@pytest.mark.parametrize(
    "changes",
    [
        {"norm": "rms"},
        {"norm": "rms", "norm_placement": "post"},
        {"norm": "rms", "norm_placement": "sandwich"},
        {"norm": "none"},
        {"mlp": "gated"},
        {"mlp": "gated", "act_fn": "silu", "norm_placement": "post"},
        {"mlp": "gated", "act_fn": "relu", "bias": False},
        {"mlp": "none"},
        {"mlp": "none", "norm_placement": "post"},
        {"mlp": "none", "norm_placement": "sandwich"},
        {"act_fn": "silu"},
        {"scores": "dot"},
        {"scores": "additive"},
        {"head_width": 3},
        {"head_width": 3, "n_heads": 5, "scores": "additive", "mask": "strictly_causal"},
        {"value_width": 3},
        {"value_width": 7, "head_width": 2, "scores": "additive"},
        {"value_width": 3, "counting": Counting(averaging_heads=2, head_norm=True)},
        {"value_width": 3, "counting": Counting(averaging_heads=2, counters=True)},
        {"qk_norm": "layer"},
        {"qk_norm": "rms", "bias": False, "scores": "dot"},
        {"qk_norm": "layer", "counting": Counting(averaging_heads=1)},
        {"parallel": True},
        {"parallel": True, "norm": "rms", "mlp": "gated", "qk_norm": "rms"},
        {"parallel": True, "norm": "none"},
        {"scores": "linear"},
        {"scores": "identity"},
        {"scores": "identity", "mask": "strictly_causal", "value_width": 3, "qk_norm": "layer"},
        {"scores": "identity", "counting": Counting(averaging_heads=1, head_norm=True)},
        {"scores": "linear", "mask": "strictly_causal", "value_width": 3, "qk_norm": "layer"},
        {"scores": "linear", "mask": "bidirectional", "value_width": 5},
        {"scores": "linear", "counting": Counting(averaging_heads=1, counters=True)},
        {"counting": Counting(head_norm=True)},
        {"norm": "none", "mask": "strictly_causal", "counting": Counting(head_norm=True)},
        {"counting": Counting(averaging_heads=1)},
        {
            "scores": "additive",
            "counting": Counting(averaging_heads=3, head_norm=True),
        },
        {"counting": Counting(averaging_heads=2, counters=True)},
        {
            "mask": "strictly_causal",
            "counting": Counting(averaging_heads=3, counters=True),
        },
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)
def test_every_part_is_its_equations(changes: dict[str, object]) -> None:
    check(**changes)


@pytest.mark.parametrize("positions", ["none", "learned", "sinusoidal", "rotary", "alibi", "t5"])
@pytest.mark.parametrize("scores", ["scaled_dot", "additive"])
def test_an_averaging_head_attends_to_all_alike(
    small_model: Make, tokens: Tensor, positions: str, scores: str
) -> None:
    """Whatever tells the order; and the others look where they learned to."""
    if (positions, scores) == ("rotary", "additive"):
        pytest.skip("there is no such model")
    model = small_model(positions=positions, scores=scores, counting=Counting(averaging_heads=2))
    pattern = model.run_with_cache(tokens)[1]["blocks.1.attn.hook_pattern"]
    even = 1 / torch.arange(1, tokens.shape[1] + 1)
    even = even[:, None].expand(pattern.shape[-2:]).tril()
    torch.testing.assert_close(pattern[:, :2], even.expand_as(pattern[:, :2]))
    assert ((pattern[:, 2:] - even).abs().amax(dim=(0, 2, 3)) > 0.01).all()


def test_the_equations_differ() -> None:
    """Else the tests above could not tell one block from another."""
    x, blocks = inputs(), [make(norm_placement=p, bias=False) for p in ("pre", "post")]
    blocks[1].load_state_dict(blocks[0].state_dict())
    outs = [blocks[0](x), blocks[1](x)]
    outs += [torch.as_tensor(block_by_hand(blocks[0], x, "bidirectional", "gelu"))]
    outs += [torch.as_tensor(block_by_hand(blocks[0], x, "causal", "relu"))]
    assert all((a - b).abs().max() > 0.1 for i, a in enumerate(outs) for b in outs[:i])


# -- PyTorch's own ------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", ["causal", "bidirectional"])
@pytest.mark.parametrize("act_fn", ["relu", "gelu"])
@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("bias", [True, False])
def test_the_block_is_pytorch_s_encoder_layer(
    placement: str, act_fn: str, mask: str, bias: bool
) -> None:
    ours = make(norm_placement=placement, act_fn=act_fn, mask=mask, bias=bias)
    theirs = nn.TransformerEncoderLayer(
        D, 4, 24, 0.0, act_fn, 1e-5, batch_first=True, norm_first=placement == "pre", bias=bias
    )
    weights = ours.state_dict()
    renamed = {"mlp.fc_in": "linear1", "mlp.fc_out": "linear2", "ln1": "norm1", "ln2": "norm2"}
    renamed["attn.o"] = "self_attn.out_proj"
    kinds = ("weight", "bias") if bias else ("weight",)
    moved = {f"{new}.{k}": weights[f"{old}.{k}"] for old, new in renamed.items() for k in kinds}
    for kind in kinds:
        stacked = torch.cat([weights[f"attn.{name}.{kind}"] for name in "qkv"])
        moved[f"self_attn.in_proj_{kind}"] = stacked
    theirs.double().load_state_dict(moved)
    x = inputs()
    hidden = torch.ones(N, N, dtype=torch.bool).triu(1) if mask == "causal" else None
    close(ours(x, related(mask)), theirs(x, src_mask=hidden).detach(), 1e-10)


@pytest.mark.parametrize("affine", [True, False])
def test_rms_norm_is_pytorch_s(affine: bool) -> None:
    ours = Norm("rms", D, 1e-5, affine=affine)
    theirs = nn.RMSNorm(D, 1e-5, elementwise_affine=affine)
    if affine:
        stir(ours)
        theirs.weight.data = ours.weight.data.clone()
    assert ours.bias is None
    x = 3 * inputs().float() + 1
    close(ours(x), theirs(x).detach(), 1e-6)
    ours.hook_scale.add_hook(spectator)
    close(ours(x), theirs(x).detach(), 2e-6)
    assert (ours(x) - nn.functional.layer_norm(x, (D,))).abs().max() > 0.1


# -- scores -------------------------------------------------------------------------------------


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


def test_additive_scores_are_bahdanau_s() -> None:
    q, k, w = normal(2, 3, 5, 4), normal(2, 3, 5, 4, seed=1), normal(3, 4, seed=2)
    scores = additive_scores(q, k, w)
    for b, h, i, j in np.ndindex(2, 3, 5, 5):
        terms = (w[h, d] * math.tanh(q[b, h, i, d] + k[b, h, j, d]) for d in range(4))
        assert float(scores[b, h, i, j]) == pytest.approx(float(sum(terms)), abs=1e-10)


@pytest.mark.parametrize("at_once", [1, 120, 250, 10**9])
def test_additive_scores_made_piece_by_piece_are_the_same(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    q, k, w = normal(2, 3, 5, 4), normal(2, 3, 5, 4, seed=1), normal(3, 4, seed=2)
    whole = additive_scores(q, k, w)
    monkeypatch.setattr(attention_module, "ADDITIVE_AT_ONCE", at_once)
    assert torch.equal(additive_scores(q, k, w), whole)


def given(attention: Attention, name: str, value: Tensor) -> None:
    """The activation at a hook point becomes the value, whatever the weights say."""
    getattr(attention, name).add_hook(lambda activation, hook: value.expand_as(activation))


def seen(attention: Attention, x: Tensor, name: str, relations: Relations) -> Tensor:
    out: list[Tensor] = []
    getattr(attention, name).add_hook(lambda activation, hook: out.append(activation))
    attention(x, relations)
    return out[0].detach()


@pytest.mark.parametrize("width", [4, 16, 64])
def test_why_scores_are_divided_by_the_root_of_the_width(width: int) -> None:
    """Var(q.k) = d_k for independent unit-variance q and k; after the division it is 1."""
    q, k = normal(8, 120, 1, width).float(), normal(8, 120, 1, width, seed=1).float()
    x, both = torch.zeros(8, 120, width), Relations(may=allowed("bidirectional", 120)[:, None])
    for scores, variance in (("dot", width), ("scaled_dot", 1.0)):
        attention = Attention(ModelConfig(n_heads=1, d_model=width, scores=scores))
        given(attention, "hook_q", q)
        given(attention, "hook_k", k)
        found = seen(attention, x, "hook_attn_scores", both)
        assert float(found.var()) == pytest.approx(variance, rel=0.1)
        exact = torch.einsum("bqhd,bkhd->bhqk", q, k)
        exact = exact / math.sqrt(width) if scores == "scaled_dot" else exact
        close(found, exact, 1e-4)


# -- the lectures' worked examples --------------------------------------------------------------


def test_contextual_average() -> None:
    """apple = (5, 7), fruit = (0, 8), brand = (6, 0): attention of 0.8 and 0.2, 0.9 and 0.1."""
    apple, fruit, brand = (5.0, 7.0), (0.0, 8.0), (6.0, 0.0)
    for other, weights, printed in (
        (fruit, (0.8, 0.2), [4.0, 7.2]),
        (brand, (0.9, 0.1), [5.1, 6.3]),
    ):
        attention = Attention(ModelConfig(n_heads=1, d_model=2, scores="dot", mask="bidirectional"))
        given(attention, "hook_v", torch.tensor([apple, other])[:, None])
        given(attention, "hook_q", torch.tensor([1.0, 0.0]))
        logs = torch.tensor(weights).log()
        given(attention, "hook_k", torch.stack([logs, logs], dim=-1)[:, None])
        relations = Relations(may=allowed("bidirectional", 2)[:, None])
        z = seen(attention, torch.zeros(1, 2, 2), "hook_z", relations)
        close(z[0, 0, 0], torch.tensor(printed), 1e-5)


def test_from_similarities_to_weights() -> None:
    """apple is like fruit by 0.25 and like brand by 0.11. The lecture prints 0.8 and 0.2, which is
    what dividing by the sum gives, and asks for the second. A softmax gives other weights: to the
    apple 0.39, to fruit 0.18, to the rest 0.14 each."""
    apple, fruit, brand = ([5.0, 7.0], [0.0, 8.0], [6.0, 0.0])
    like_fruit, like_brand = (torch.tensor([1.0, other]) for other in (0.25, 0.11))
    like_fruit, like_brand = like_fruit / like_fruit.sum(), like_brand / like_brand.sum()
    close(like_fruit, torch.tensor([0.8, 0.2]), 1e-6)
    close(like_brand, torch.tensor([0.9, 0.1]), 0.005)
    close(like_fruit @ torch.tensor([apple, fruit]), torch.tensor([4.0, 7.2]), 1e-5)
    rounded = torch.tensor([round(float(each), 1) for each in like_brand])
    close(rounded @ torch.tensor([apple, brand]), torch.tensor([5.1, 6.3]), 1e-5)
    scores = torch.tensor([[1.0, 0.25, 0.0, 0.0, 0.0]])
    printed = masked_softmax(scores, torch.ones(1, 5, dtype=torch.bool))
    close(printed[0], torch.tensor([0.39, 0.18, 0.14, 0.14, 0.14]), 0.005)


def test_a_translation_is_an_average_of_its_source() -> None:
    """student = 0.15 je + 0.05 suis + 0.8 étudiant."""
    source = torch.eye(3)  # each word has a number of its own
    weights = torch.tensor([0.15, 0.05, 0.8])
    attention = Attention(ModelConfig(n_heads=1, d_model=3, scores="dot", mask="bidirectional"))
    given(attention, "hook_v", source[:, None])
    given(attention, "hook_q", torch.tensor([1.0, 0.0, 0.0]))
    given(attention, "hook_k", weights.log()[:, None].expand(3, 3)[:, None])
    relations = Relations(may=allowed("bidirectional", 3)[:, None])
    close(seen(attention, torch.zeros(1, 3, 3), "hook_z", relations)[0, 0, 0], weights, 1e-6)


@pytest.mark.parametrize("width", [2, 5])
@pytest.mark.parametrize("heads", [1, 3])
def test_multi_head_parameter_shapes(heads: int, width: int) -> None:
    """d = 16 and keys of width 2, then 5; the lecture puts the input's width first, we the head."""
    attention = Attention(ModelConfig(n_heads=heads, d_model=16, head_width=width))
    for name in ("W_Q", "W_K", "W_V"):
        assert getattr(attention, name).transpose(0, 1).shape == (16, heads, width)
    for name in ("b_Q", "b_K", "b_V"):
        assert getattr(attention, name).shape == (heads, width)
    assert attention.W_O.shape == (heads, width, 16)
    assert attention.b_O.shape == (16,)
    x = torch.zeros(5, 6, 16)
    assert attention(x).shape == (5, 6, 16)
    pattern = seen(attention, x, "hook_pattern", Relations())
    assert pattern.shape == (5, heads, 6, 6)


# -- symmetry -----------------------------------------------------------------------------------

ORDER = torch.tensor([0, 4, 2, 6, 1, 7, 3, 5])  # BOS stays where it is


@pytest.mark.parametrize("scores", ["scaled_dot", "dot", "additive"])
def test_without_positions_attention_is_permutation_equivariant(
    small_model: Make, tokens: Tensor, scores: str
) -> None:
    """A(XP) = A(X)P, block by block; and the answer at BOS, a learned query, does not change."""
    model = small_model(mask="bidirectional", scores=scores).double()
    logits, cache = model.run_with_cache(tokens)
    permuted, other = model.run_with_cache(tokens[:, ORDER])
    for name in ("attn_out", "resid_mid", "resid_post"):
        for layer in range(2):
            key = f"blocks.{layer}.hook_{name}"
            close(other[key], cache[key][:, ORDER].detach())
    close(permuted, logits[:, ORDER].detach())
    close(permuted[:, 0], logits[:, 0].detach())
    assert (logits[:, 1:] - permuted[:, 1:]).abs().max() > 0.1


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary", "alibi", "t5"])
def test_positions_break_the_symmetry(small_model: Make, tokens: Tensor, positions: str) -> None:
    model = small_model(mask="bidirectional", positions=positions)
    logits, permuted = model(tokens), model(tokens[:, ORDER])
    assert (logits[:, ORDER] - permuted).abs().amax(dim=(1, 2)).min() > 1e-2
    assert (logits - permuted)[:, 0].abs().max() > 1e-3


def test_a_causal_mask_breaks_the_symmetry(small_model: Make, tokens: Tensor) -> None:
    model = small_model(mask="causal")
    assert (model(tokens)[:, ORDER] - model(tokens[:, ORDER])).abs().max() > 0.1


@pytest.mark.parametrize("norm", ["layer", "none"])
def test_one_causal_layer_does_not_know_the_order_of_what_came_before(
    small_model: Make, norm: str
) -> None:
    """Is x3 as likely after x1 x2 as after x2 x1? After one layer without positions, exactly; with
    two layers, or with positions, no: the first layer says at each word what stood before it."""
    tokens = torch.tensor([[0, 2, 3, 4, 2], [0, 3, 2, 4, 2]])
    for layers, positions, alike in ((1, "none", True), (2, "none", False), (1, "learned", False)):
        model = small_model(n_layers=layers, positions=positions, norm=norm).double()
        with torch.no_grad():
            one, two = model(tokens)[:, 3]  # what comes after x1 x2 x3
        assert (bool((one - two).abs().max() < 1e-12)) == alike, (layers, positions)
