"""The decoder against its equations, written out with loops in float64.

Attention is equations 1-3 and layer normalisation 7-8 of Thickstun, "The Transformer Model in
Equations"; the pre-norm block is that of Bishop, "Deep Learning", chapter 12.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from conftest import SMALL

from models.errors import UserError
from models.languages import BOS, END, Vocabulary
from models.model_config import ModelConfig
from models.transformer.model import HookedTransformer

Make = Callable[..., HookedTransformer]


# -- the equations ------------------------------------------------------------------------------


def layer_norm(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, eps: float) -> np.ndarray:
    """gamma (x - mu) / sigma + beta, row by row; sigma divides by k, not by k - 1."""
    out = np.empty_like(x)
    for i, row in enumerate(x):
        mu = sum(row) / len(row)
        sigma = math.sqrt(sum((value - mu) ** 2 for value in row) / len(row) + eps)
        for j, value in enumerate(row):
            out[i, j] = gamma[j] * (value - mu) / sigma + beta[j]
    return out


def attention(x: np.ndarray, w: dict[str, np.ndarray]) -> np.ndarray:
    """u'_i = sum over heads and j <= i of alpha_ij V_j W_O, and the output bias."""
    n, heads, width = len(x), *w["W_Q"].shape[::2]
    out = np.tile(w["b_O"], (n, 1))
    for h in range(heads):
        q = [x[i] @ w["W_Q"][h] + w["b_Q"][h] for i in range(n)]
        k = [x[i] @ w["W_K"][h] + w["b_K"][h] for i in range(n)]
        v = [x[i] @ w["W_V"][h] + w["b_V"][h] for i in range(n)]
        for i in range(n):
            score = [math.exp(sum(q[i] * k[j]) / math.sqrt(width)) for j in range(i + 1)]
            for j in range(i + 1):
                out[i] += score[j] / sum(score) * v[j] @ w["W_O"][h]
    return out


def mlp(x: np.ndarray, w: dict[str, np.ndarray], act_fn: str) -> np.ndarray:
    def act(value: float) -> float:
        if act_fn == "relu":
            return max(value, 0.0)
        return value * 0.5 * (1 + math.erf(value / math.sqrt(2)))

    hidden = x @ w["W_in"] + w["b_in"]
    return np.vectorize(act)(hidden) @ w["W_out"] + w["b_out"]


def logits_by_hand(model: HookedTransformer, tokens: torch.Tensor) -> np.ndarray:
    def read(module: torch.nn.Module, *names: str) -> dict[str, np.ndarray]:
        return {name: getattr(module, name).detach().numpy() for name in names}

    def gamma_beta(norm: torch.nn.Module) -> tuple[np.ndarray, np.ndarray]:
        return norm.weight.detach().numpy(), norm.bias.detach().numpy() if bias else zero

    rows = []
    eps, bias = model.config.eps, model.config.bias
    one, zero = np.ones(model.config.d_model), np.zeros(model.config.d_model)
    for word in tokens:
        x = model.W_E.detach().numpy()[word]
        if model.pos_embed is not None:
            x = x + model.pos_embed.weight.detach().numpy()[: len(word)]
        for block in model.blocks:
            attn = read(block.attn, "W_Q", "b_Q", "W_K", "b_K", "W_V", "b_V", "W_O", "b_O")
            feed = read(block.mlp, "W_in", "b_in", "W_out", "b_out")
            x = x + attention(layer_norm(x, *gamma_beta(block.ln1), eps), attn)
            x = x + mlp(layer_norm(x, *gamma_beta(block.ln2), eps), feed, model.config.act_fn)
        w_u, b_u = model.W_U.detach().numpy(), model.b_U.detach().numpy()
        rows.append(layer_norm(x, one, zero, eps) @ w_u + b_u)
    return np.stack(rows)


@pytest.mark.parametrize("positions", ["none", "learned"])
@pytest.mark.parametrize("act_fn", ["relu", "gelu"])
@pytest.mark.parametrize(("n_heads", "bias"), [(1, True), (4, True), (4, False)])
def test_the_model_is_its_equations(
    small_model: Make, tokens: torch.Tensor, positions: str, act_fn: str, n_heads: int, bias: bool
) -> None:
    model = small_model(positions=positions, act_fn=act_fn, n_heads=n_heads, bias=bias).double()
    expected = logits_by_hand(model, tokens)
    assert np.abs(expected).max() > 1
    np.testing.assert_allclose(model(tokens).detach().numpy(), expected, rtol=0, atol=1e-10)
    hooked, _ = model.run_with_cache(tokens)  # the other path, through every hook
    np.testing.assert_allclose(hooked.detach().numpy(), expected, rtol=0, atol=1e-10)


def test_without_bias_there_is_none_inside_the_blocks(small_model: Make) -> None:
    names = [name for name, _ in small_model(bias=False).named_parameters()]
    assert [name for name in names if "bias" in name] == ["unembed.linear.bias"]
    assert not small_model(bias=False).accumulated_bias(2).any()


def test_a_word_does_not_see_what_follows_it(
    model: HookedTransformer, tokens: torch.Tensor
) -> None:
    """So padding at the right changes nothing."""
    changed = tokens.clone()
    changed[:, 5:] = 1
    difference = (model(tokens) - model(changed)).abs()
    assert difference[:, :5].max() < 1e-5
    assert difference[:, 5:].max() > 0.1


# -- the fused path and the hooked one ----------------------------------------------------------


def spectator(activation: torch.Tensor, hook: object) -> None:
    """A hook that only looks."""


LAZY = [
    *(f"blocks.1.attn.hook_{name}" for name in ("attn_scores", "pattern", "result")),
    *(f"blocks.1.ln1.hook_{name}" for name in ("scale", "normalized")),
    *(f"ln_final.hook_{name}" for name in ("scale", "normalized")),
]


@pytest.mark.parametrize("name", LAZY)
def test_a_hook_that_only_looks_changes_nothing(
    model: HookedTransformer, tokens: torch.Tensor, name: str
) -> None:
    hooked = model.run_with_hooks(tokens, fwd_hooks=[(name, spectator)])
    torch.testing.assert_close(hooked, model(tokens), rtol=0, atol=2e-6)


@pytest.mark.parametrize("kind", ["forward", "forward_pre", "full_backward", "full_backward_pre"])
def test_hooks_set_past_transformerlens_are_heard(
    model: HookedTransformer, tokens: torch.Tensor, kind: str
) -> None:
    calls = []
    point = model.blocks[0].attn.hook_pattern
    handle = getattr(point, f"register_{kind}_hook")(lambda *_: calls.append(kind))
    model(tokens).sum().backward()
    handle.remove()
    assert calls == [kind]
    model(tokens).sum().backward()
    assert calls == [kind]


HEADS, WIDTH, BATCH, POS, D, HIDDEN = 4, 4, 4, 8, 16, 24
SHAPES = {
    "hook_resid_pre": (BATCH, POS, D),
    "hook_attn_out": (BATCH, POS, D),
    "hook_resid_mid": (BATCH, POS, D),
    "hook_mlp_out": (BATCH, POS, D),
    "hook_resid_post": (BATCH, POS, D),
    "ln1.hook_scale": (BATCH, POS, 1),
    "ln1.hook_normalized": (BATCH, POS, D),
    "ln2.hook_scale": (BATCH, POS, 1),
    "ln2.hook_normalized": (BATCH, POS, D),
    "attn.hook_q": (BATCH, POS, HEADS, WIDTH),
    "attn.hook_k": (BATCH, POS, HEADS, WIDTH),
    "attn.hook_v": (BATCH, POS, HEADS, WIDTH),
    "attn.hook_z": (BATCH, POS, HEADS, WIDTH),
    "attn.hook_attn_scores": (BATCH, HEADS, POS, POS),
    "attn.hook_pattern": (BATCH, HEADS, POS, POS),
    "attn.hook_result": (BATCH, POS, HEADS, D),
    "mlp.hook_pre": (BATCH, POS, HIDDEN),
    "mlp.hook_post": (BATCH, POS, HIDDEN),
}


def test_a_model_that_would_not_hear_its_hooks_is_refused(
    model: HookedTransformer, tokens: torch.Tensor
) -> None:
    """Compiled in place it would answer, with an empty cache. Compiled beside itself it hears."""
    with pytest.raises(UserError, match="ignores hooks"):
        model.compile(backend="eager")
    beside: Any = torch.compile(model, backend="eager")
    _, cache = beside.run_with_cache(tokens)
    assert len(cache) == len(model.run_with_cache(tokens)[1])


def test_every_hook_and_its_shape(small_model: Make, tokens: torch.Tensor) -> None:
    _, cache = small_model(positions="learned").run_with_cache(tokens)
    expected = {f"blocks.{layer}.{name}": s for layer in range(2) for name, s in SHAPES.items()}
    expected |= {
        "hook_embed": (BATCH, POS, D),
        "hook_pos_embed": (BATCH, POS, D),
        "ln_final.hook_scale": (BATCH, POS, 1),
        "ln_final.hook_normalized": (BATCH, POS, D),
    }
    assert {name: tuple(value.shape) for name, value in cache.items()} == expected


def test_what_the_hooks_hold_fits_together(small_model: Make, tokens: torch.Tensor) -> None:
    model = small_model(positions="learned").double()
    logits, cache = model.run_with_cache(tokens)
    close = torch.testing.assert_close
    close(cache["blocks.0.hook_resid_pre"], cache["hook_embed"] + cache["hook_pos_embed"])
    for layer, block in enumerate(model.blocks):
        at = {name: cache[f"blocks.{layer}.{name}"] for name in SHAPES}
        close(at["hook_resid_mid"], at["hook_resid_pre"] + at["hook_attn_out"])
        close(at["hook_resid_post"], at["hook_resid_mid"] + at["hook_mlp_out"])
        pattern, scores = at["attn.hook_pattern"], at["attn.hook_attn_scores"]
        close(pattern.sum(-1), torch.ones(BATCH, HEADS, POS, dtype=torch.float64))
        close(pattern, scores.softmax(-1))
        assert (scores.isinf() == torch.ones(POS, POS, dtype=torch.bool).triu(1)).all()
        assert (pattern.triu(1) == 0).all()
        z = torch.einsum("bhqk,bkhd->bqhd", pattern, at["attn.hook_v"])
        close(at["attn.hook_z"], z)
        close(at["attn.hook_result"].sum(2) + block.attn.b_O, at["hook_attn_out"])
        norm = at["ln1.hook_normalized"]
        close(norm.mean(-1), torch.zeros(BATCH, POS, dtype=torch.float64))
        close(
            at["attn.hook_q"],
            torch.einsum("bpm,hmd->bphd", norm * block.ln1.weight + block.ln1.bias, block.attn.W_Q)
            + block.attn.b_Q,
        )
        assert (at["mlp.hook_post"] - torch.nn.functional.gelu(at["mlp.hook_pre"])).abs().max() == 0
    close(cache["ln_final.hook_normalized"] @ model.W_U + model.b_U, logits)


@pytest.mark.parametrize("name", SHAPES)
def test_editing_any_activation_changes_the_output(
    model: HookedTransformer, tokens: torch.Tensor, name: str
) -> None:
    def edit(activation: torch.Tensor, hook: object) -> torch.Tensor:
        """Something that a norm, or a softmax, cannot undo."""
        return activation * torch.linspace(0.2, 2.0, activation.shape[-1])

    def widen(activation: torch.Tensor, hook: object) -> torch.Tensor:
        return activation * 3

    hook = widen if name.endswith("hook_scale") else edit
    edited = model.run_with_hooks(tokens, fwd_hooks=[(f"blocks.0.{name}", hook)])
    assert (edited - model(tokens)).abs().max() > 0.01


def test_an_edited_pattern_is_the_one_used(model: HookedTransformer, tokens: torch.Tensor) -> None:
    """Attention turned to BOS alone: every head then gives the value of BOS."""

    def to_bos(pattern: torch.Tensor, hook: object) -> torch.Tensor:
        return torch.zeros_like(pattern).index_fill(-1, torch.tensor([0]), 1.0)

    seen = {}

    def keep(activation: torch.Tensor, hook: object) -> None:
        seen[hook.name] = activation

    model.run_with_hooks(
        tokens,
        fwd_hooks=[
            ("blocks.1.attn.hook_pattern", to_bos),
            ("blocks.1.attn.hook_v", keep),
            ("blocks.1.attn.hook_z", keep),
        ],
    )
    v, z = seen["blocks.1.attn.hook_v"], seen["blocks.1.attn.hook_z"]
    torch.testing.assert_close(z, v[:, :1].expand_as(z))


# -- gradients, seeds, limits -------------------------------------------------------------------


def gradients(model: HookedTransformer, run: Callable[[], torch.Tensor]) -> dict[str, torch.Tensor]:
    model.zero_grad()
    run().pow(2).sum().backward()
    return {name: p.grad.clone() for name, p in model.named_parameters()}


def test_a_gradient_reaches_every_parameter(small_model: Make, tokens: torch.Tensor) -> None:
    model = small_model(positions="learned").double()
    found = gradients(model, lambda: model(tokens))
    for name, gradient in found.items():
        if name.endswith("attn.k.bias"):  # it moves all scores of a query alike: softmax forgets it
            assert gradient.abs().max() < 1e-9, name
        else:
            assert gradient.abs().max() > 1e-3, name
    hooks = [(name, spectator) for name in LAZY]
    hooked = gradients(model, lambda: model.run_with_hooks(tokens, fwd_hooks=hooks))
    for name, gradient in found.items():
        torch.testing.assert_close(hooked[name], gradient, rtol=1e-8, atol=1e-8)


def test_the_gradient_of_a_hook(model: HookedTransformer, tokens: torch.Tensor) -> None:
    """A backward hook on the final residual stream, against autograd's own answer."""
    seen = []

    def keep(gradient: torch.Tensor, hook: object) -> None:
        seen.append(gradient)

    model.reset_hooks()
    model.add_hook("blocks.1.hook_resid_post", keep, dir="bwd")
    model(tokens)[:, -1, 1].sum().backward()
    model.reset_hooks()
    _, cache = model.run_with_cache(tokens)
    resid = cache["blocks.1.hook_resid_post"].detach().requires_grad_()
    (expected,) = torch.autograd.grad(model.unembed(model.ln_final(resid))[:, -1, 1].sum(), resid)
    torch.testing.assert_close(seen[0], expected)


def test_the_seed_alone_decides_the_weights() -> None:
    vocabulary = Vocabulary(("a", "b"))

    def weights(seed: int) -> dict[str, torch.Tensor]:
        return HookedTransformer(SMALL, vocabulary, seed).state_dict()

    torch.manual_seed(1)
    first = weights(7)
    torch.manual_seed(2)
    again, other = weights(7), weights(8)
    assert all(torch.equal(first[name], again[name]) for name in first)
    drawn = [name for name in first if "ln" not in name and not name.endswith("bias")]
    assert len(drawn) == 2 + 2 * 6
    assert not any(torch.equal(first[name], other[name]) for name in drawn)


def test_making_a_model_leaves_the_global_random_state_alone() -> None:
    before = torch.get_rng_state()
    HookedTransformer(SMALL, Vocabulary(("a", "b")), seed=3)
    assert torch.equal(torch.get_rng_state(), before)


def test_learned_positions_end_somewhere(small_model: Make) -> None:
    model = small_model(positions="learned", n_ctx=5)
    assert model(model.to_tokens("abca")).shape == (1, 5, 5)
    with pytest.raises(UserError, match=r"^a word of 5 symbols [^\n]*\(4\)[^\n]*n-ctx$"):
        model(model.to_tokens("abcab"))
    assert small_model(n_ctx=5)(model.to_tokens("abcab" * 4)).shape == (1, 21, 5)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"n_layers": 0}, "n_layers is 0"),
        ({"n_heads": 0}, "n_heads is 0"),
        ({"d_mlp": -1}, "d_mlp is -1"),
        ({"n_ctx": 0}, "n_ctx is 0"),
        ({"d_model": 6, "n_heads": 4}, "d_model 6 does not divide among n_heads 4"),
    ],
)
def test_impossible_shapes_are_refused(changes: dict[str, int], fault: str) -> None:
    with pytest.raises(UserError, match=rf"^{fault}[^\n]*$"):
        ModelConfig(**changes)


# -- text ---------------------------------------------------------------------------------------


def test_text_to_tokens_and_back(model: HookedTransformer) -> None:
    assert model.to_tokens("abc").tolist() == [[0, 2, 3, 4]]
    assert model.to_tokens(["ab", "ca"], prepend_bos=False).tolist() == [[2, 3], [4, 2]]
    assert model.to_tokens(torch.tensor([[0, 2]])).tolist() == [[0, 2]]
    assert model.to_str_tokens("ab") == [BOS, "a", "b"]
    assert model.to_single_token(END) == 1
    assert torch.equal(model("abc"), model(model.to_tokens("abc")))
    with pytest.raises(UserError, match="same length"):
        model.to_tokens(["a", "ab"])
    with pytest.raises(UserError, match="unknown token 'x': use one of <bos> <end> a b c"):
        model.to_single_token("x")
