"""The planted models do what they say, by brute force, and by their planted parts alone.

A causal mask: the logits after a prefix are those of the prefix as a word, so that all words of the
greatest length hold all shorter ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import product

import pytest
import torch
from jaxtyping import Float, Int
from planted import (
    CHAIN_LENGTH,
    COUNTER_LENGTH,
    INDUCTION_LENGTH,
    PLANTED,
    TOGETHER,
    TWO_LENGTH,
    Edge,
    Planted,
    both,
    chain,
    counter,
    either,
    induction,
)
from torch import Tensor

from interp.model import activations
from models.languages import BOS_ID, END_ID
from models.transformer.model import HookedTransformer

Hooks = list[tuple[str, Callable[..., Tensor]]]


@pytest.fixture(params=[*PLANTED, *TOGETHER])
def planted(request: pytest.FixtureRequest) -> Planted:
    return (PLANTED | TOGETHER)[request.param]()


@pytest.fixture(params=[*PLANTED, "both"])
def needed(request: pytest.FixtureRequest) -> Planted:
    """A network of which every planted part is needed."""
    return (PLANTED | TOGETHER)[request.param]()


def every_word(model: HookedTransformer, length: int) -> Int[Tensor, "word pos"]:
    """All words of a length, BOS first."""
    symbols = range(2, len(model.vocabulary))
    return torch.tensor([(BOS_ID, *word) for word in product(symbols, repeat=length)])


@torch.no_grad()
def test_the_counter_counts() -> None:
    model = counter().model
    tokens = every_word(model, COUNTER_LENGTH)
    a, b = ((tokens == model.to_single_token(s)).cumsum(1) for s in "ab")
    mean = (a - b) / torch.arange(1, COUNTER_LENGTH + 2)
    verdict = model(tokens)[..., END_ID]
    assert verdict.numpy() == pytest.approx((0.5 - 13 * mean.abs()).numpy(), abs=1e-5)
    assert verdict[a == b].min() > 0.49
    assert verdict[a != b].max() < -0.49


@pytest.mark.slow
@torch.no_grad()
def test_induction_says_what_followed_the_last_symbol() -> None:
    model = induction().model
    tokens = every_word(model, INDUCTION_LENGTH)
    expected = torch.zeros(*tokens.shape, len(model.vocabulary))
    for last in range(1, tokens.shape[1]):
        asked = tokens[:, :last] == tokens[:, [last]]  # BOS is no symbol of any word
        followers = torch.nn.functional.one_hot(tokens[:, 1 : last + 1], len(model.vocabulary))
        counts = (asked[..., None] * followers).sum(1)
        expected[:, last] = counts / asked.sum(1, keepdim=True).clamp(min=1)
    logits = model(tokens)
    assert logits.numpy() == pytest.approx((expected - 1 / 14).numpy(), abs=1e-6)
    assert torch.equal(logits > 0, expected > 0)


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize("norm", ["none", "layer", "rms"])
def test_the_chain_says_the_symbol_two_back(norm: str) -> None:
    model = chain(norm).model
    tokens = every_word(model, CHAIN_LENGTH)
    two_back = torch.cat([torch.full_like(tokens[:, :2], BOS_ID), tokens[:, :-2]], dim=1)
    logits = model(tokens)
    assert torch.equal(logits.argmax(-1), two_back)
    if norm == "none":
        expected = torch.nn.functional.one_hot(two_back, len(model.vocabulary)) - 0.5
        assert logits.numpy() == pytest.approx(expected.numpy(), abs=1e-6)


def test_the_planted_heads_look_at_one_place() -> None:
    """Less than 1e-12 of the attention is elsewhere, at the last position of the pairs."""
    for planted, heads in ((induction(), {(0, 1)}), (chain(), {(0, 2), (1, 0)})):
        names = [f"blocks.{layer}.attn.hook_pattern" for layer in range(2)]
        patterns = activations(planted.model, planted.pairs[0], names)
        for layer, head in heads:
            looks = patterns[names[layer]][:, head, 1:]
            assert looks.diagonal(0, 1, 2).min() == 1
            assert looks.sum(-1).sub(looks.diagonal(0, 1, 2)).max() < 1e-12


def without(layer: int, head: int | None = None) -> Hooks:
    """A head, or the MLP, of a layer puts out zeros."""

    def silence(x: Tensor, hook: object) -> Tensor:
        x = x.clone()
        x[:, :, slice(None) if head is None else head] = 0
        return x

    part = "hook_mlp_out" if head is None else "attn.hook_z"
    return [(f"blocks.{layer}.{part}", silence)]


@torch.no_grad()
def test_every_planted_head_is_needed(needed: Planted) -> None:
    """Without it the model tells no clean word from its corrupted one, or does not recognise it."""
    model, (clean, corrupted) = needed.model, needed.pairs
    assert needed.metric(model(clean)).min() > 0
    assert needed.metric(model(corrupted)).max() < 0
    for layer, head in needed.heads:
        broken = [
            needed.metric(model.run_with_hooks(words, fwd_hooks=without(layer, head))) > 0
            for words in needed.pairs
        ]
        assert torch.equal(*broken)


@torch.no_grad()
def test_no_decoy_moves_any_logit(planted: Planted) -> None:
    model, tokens = planted.model, torch.cat(planted.pairs)
    before = model(tokens)
    assert len(planted.decoys) + len(planted.heads) == 8
    for layer, head in [*planted.decoys, *((layer, None) for layer in planted.decoy_mlps)]:
        hooks = without(layer, head)
        assert torch.equal(model.run_with_hooks(tokens, fwd_hooks=hooks), before)
        busy = activations(model, tokens, [hooks[0][0]])[hooks[0][0]]
        difference = busy[: len(tokens) // 2] - busy[len(tokens) // 2 :]
        assert (difference if head is None else difference[:, :, head]).abs().max() > 0.1


def every_edge(model: HookedTransformer) -> list[Edge]:
    """From each sender to each receiver after it."""
    config, senders, edges = model.config, ["embed"], []
    for layer in range(config.n_layers):
        heads = [f"L{layer}H{head}" for head in range(config.n_heads)]
        edges += [(s, f"{head}.{x}") for s in senders for head in heads for x in "qkv"]
        senders += heads
        if config.mlp != "none":
            edges += [(sender, f"L{layer} mlp") for sender in senders]
            senders.append(f"L{layer} mlp")
    return edges + [(sender, "logits") for sender in senders]


@torch.no_grad()
def cut(planted: Planted, edges: Collection[Edge]) -> Float[Tensor, " pair"]:
    """The metric of the clean words where these edges carry what they do in the corrupted ones.

    Without a norm a receiver is linear in the stream: the difference on the edge is taken off.
    """
    model, now, then = planted.model, {}, {}
    n_layers, n_heads = model.config.n_layers, model.config.n_heads

    def missing(receiver: str) -> Tensor:
        ours = [now[s] - then[s] for s, r in edges if r == receiver]
        return sum(ours, torch.zeros_like(now["embed"]))

    def hear(into: dict[str, Tensor], sender: str) -> Callable[..., None]:
        def hook(x: Tensor, hook: object) -> None:
            parts = {f"{sender}{i}": x[:, :, i] for i in range(n_heads)}
            into.update(parts if x.ndim == 4 else {sender: x})

        return hook

    def receive(receivers: list[str], weight: Tensor) -> Callable[..., Tensor]:
        def hook(x: Tensor, hook: object) -> Tensor:
            lost = [missing(r) @ w for r, w in zip(receivers, weight, strict=True)]
            return x - torch.stack(lost, dim=2) if x.ndim == 4 else x - lost[0]

        return hook

    def senders(into: dict[str, Tensor]) -> Hooks:
        hooks: Hooks = [("blocks.0.hook_resid_pre", hear(into, "embed"))]
        for layer in range(n_layers):
            hooks.append((f"blocks.{layer}.attn.hook_result", hear(into, f"L{layer}H")))
            if model.config.mlp != "none":
                hooks.append((f"blocks.{layer}.hook_mlp_out", hear(into, f"L{layer} mlp")))
        return hooks

    receivers: Hooks = []
    for layer, block in enumerate(model.blocks):
        weights = {"q": block.attn.W_Q, "k": block.attn.W_K, "v": block.attn.W_V}
        for part, weight in weights.items():
            names = [f"L{layer}H{head}.{part}" for head in range(n_heads)]
            receivers.append((f"blocks.{layer}.attn.hook_{part}", receive(names, weight)))
        if block.mlp is not None:
            hook = receive([f"L{layer} mlp"], block.mlp.W_in[None])
            receivers.append((f"blocks.{layer}.mlp.hook_pre", hook))
    clean, corrupted = planted.pairs
    model.run_with_hooks(corrupted, fwd_hooks=senders(then))
    logits = model.run_with_hooks(clean, fwd_hooks=senders(now) + receivers)
    return planted.metric(logits - missing("logits") @ model.W_U)


@pytest.mark.slow
def test_the_edges_are_all_that_carries_the_difference(planted: Planted) -> None:
    clean, corrupted = (planted.metric(planted.model(words)) for words in planted.pairs)
    edges = every_edge(planted.model)
    others = [edge for edge in edges if edge not in planted.edges]
    assert len(others) + len(planted.edges) == len(edges)
    whole = cut(planted, [])
    assert whole.numpy() == pytest.approx(clean.detach().numpy(), abs=1e-6)
    assert torch.equal(cut(planted, others), whole)
    assert all(torch.equal(cut(planted, [edge]), whole) for edge in others)
    assert cut(planted, edges).numpy() == pytest.approx(corrupted.detach().numpy(), abs=1e-6)


def test_no_edge_can_be_left_out(needed: Planted) -> None:
    """Cut alone, each turns the verdict on some pair."""
    assert all((cut(needed, [edge]) < 0).any() for edge in needed.edges)


@torch.no_grad()
def test_two_heads_each_enough_or_both_needed() -> None:
    """On all words; and without one head, or without both."""
    for planted in (either(), both()):
        model = planted.model
        tokens = every_word(model, TWO_LENGTH)
        count = {s: (tokens == model.to_single_token(s)).sum(1) for s in "ac"}
        for lost in ([], [1], [2], [1, 2]):
            hooks = [hook for head in lost for hook in without(0, head)]
            logit = model.run_with_hooks(tokens, fwd_hooks=hooks)[:, -1, END_ID]
            second = count["a" if planted.about.startswith("is there an a?") else "c"]
            total = count["a"] * (1 not in lost) + second * (2 not in lost)
            if second is count["a"]:
                expected = total.clamp(max=1) - 0.5
            else:
                expected = (total - 1).clamp(min=0) - 0.5
            assert logit.numpy() == pytest.approx(expected.numpy(), abs=1e-5)


def test_each_kind_of_induction_pair_has_its_edges() -> None:
    planted = induction()
    out, before = ("L1H2", "logits"), {("embed", "L0H1.v"), ("L0H1", "L1H2.k")}
    copied, asked = {("embed", "L1H2.v")}, {("embed", "L1H2.q")}
    verdicts = {edge: (cut(planted, [edge]) < 0).tolist() for edge in planted.edges}
    for pair, expected in enumerate([before, before, copied, copied, asked, asked, copied]):
        assert {edge for edge, wrong in verdicts.items() if wrong[pair]} == {*expected, out}
