"""RNN, LSTM, GRU, CNN and n-gram: each against its definition, and its states under hooks."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import SMALL, TINY, stir, tiny_config
from drawn import words_of
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from models.base import build
from models.errors import UserError
from models.languages import Vocabulary, language
from models.languages.pairs.letters import Reordering, same
from models.model_config import ModelConfig
from models.objectives import OBJECTIVES, objective
from models.rivals.convolution import HookedConvolution
from models.rivals.ngram import HookedNGram
from models.rivals.recurrent import HookedRecurrent
from models.runs.run import Run
from models.training.loop import train

ABC = Vocabulary(("a", "b", "c"))
Hook = tuple[str, Callable[..., Tensor | None]]


def spectator(activation: Tensor, hook: object) -> None:
    """A hook that only looks."""


def close(ours: Tensor, expected: Tensor, tolerance: float = 1e-6) -> None:
    torch.testing.assert_close(ours.detach(), expected.detach(), rtol=0, atol=tolerance)


# -- RNN, LSTM and GRU --------------------------------------------------------------------------


def recurrent(kind: str, **changes: object) -> HookedRecurrent:
    config = replace(SMALL, architecture=kind, **changes)
    return stir(build(config, ABC, 0)).eval()


def state_points(model: HookedRecurrent) -> list[str]:
    kinds = ["hook_resid_post"] + ["hook_cell"] * (model.config.architecture == "lstm")
    return [f"blocks.{k}.{name}" for k in range(model.config.n_layers) for name in kinds]


def states(model: HookedRecurrent, tokens: Tensor) -> dict[str, Tensor]:
    _, cache = model.run_with_cache(tokens)
    return {name: cache[name].detach() for name in state_points(model)}


def put(at: int, value: Tensor) -> Callable[..., Tensor]:
    """A hook that sets the activation at one position."""

    def hook(activation: Tensor, hook: object) -> Tensor:
        changed = activation.clone()
        changed[:, at] = value
        return changed

    return hook


RECURRENT = pytest.mark.parametrize("kind", ["rnn", "lstm", "gru"])


@RECURRENT
@pytest.mark.parametrize("bias", [True, False])
def test_walking_is_the_fused_layer(tokens: Tensor, kind: str, bias: bool) -> None:
    model = recurrent(kind, bias=bias)
    plain = model(tokens)
    points = state_points(model)
    for chosen in ([point] for point in points):
        close(model.run_with_hooks(tokens, fwd_hooks=[(p, spectator) for p in chosen]), plain, 2e-6)
    close(model.run_with_hooks(tokens, fwd_hooks=[(p, spectator) for p in points]), plain, 2e-6)
    assert plain.abs().max() > 0.3


@RECURRENT
@pytest.mark.parametrize("bias", [True, False])
def test_it_is_pytorch_s_own(tokens: Tensor, kind: str, bias: bool) -> None:
    """Two layers in one module, with our weights; the states too."""
    model = recurrent(kind, bias=bias)
    theirs = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}[kind](
        16, 16, 2, bias=bias, batch_first=True
    )
    theirs.load_state_dict(
        {
            name.replace("_l0", f"_l{layer}"): value
            for layer, block in enumerate(model.blocks)
            for name, value in block.rnn.state_dict().items()
        }
    )
    x = nn.functional.embedding(tokens, model.W_E)
    hidden, last = theirs(x)
    close(model(tokens), hidden @ model.W_U + model.b_U, 2e-6)
    found = states(model, tokens)
    close(found["blocks.1.hook_resid_post"], hidden, 2e-6)
    if kind == "lstm":
        close(found["blocks.1.hook_cell"][:, -1], last[1][1], 2e-6)
        for t in (1, 4):
            close(found["blocks.0.hook_cell"][:, t - 1], theirs(x[:, :t])[1][1][0], 2e-6)


@RECURRENT
def test_gradients_flow_through_the_walk(tokens: Tensor, kind: str) -> None:
    model = recurrent(kind).double()
    found = []
    for hooks in ([], [(point, spectator) for point in state_points(model)]):
        model.zero_grad()
        model.run_with_hooks(tokens, fwd_hooks=hooks).pow(2).sum().backward()
        found.append({name: p.grad.clone() for name, p in model.named_parameters()})
    for name, gradient in found[0].items():
        torch.testing.assert_close(found[1][name], gradient, rtol=1e-9, atol=1e-9)
        assert gradient.abs().max() > 1e-3, name


@RECURRENT
def test_a_changed_state_changes_what_comes_after(tokens: Tensor, kind: str) -> None:
    model = recurrent(kind)
    plain = model(tokens)
    for point in state_points(model):
        changed = model.run_with_hooks(tokens, fwd_hooks=[(point, put(3, torch.tensor(0.7)))])
        moved = (changed - plain).abs().amax(dim=(0, 2))
        assert (moved[:3] < 1e-6).all(), point
        assert (moved[3:] > 1e-4).all(), point


@RECURRENT
def test_a_state_is_all_that_is_remembered(tokens: Tensor, kind: str) -> None:
    """With another word's states a word goes on as that word would."""
    model = recurrent(kind)
    own, other = tokens[:2], tokens[2:]
    for t in (0, 3, 6):
        donated = states(model, other)
        hooks = [(point, put(t, donated[point][:, t])) for point in state_points(model)]
        patched = model.run_with_hooks(own, fwd_hooks=hooks)
        spliced = torch.cat([other[:, : t + 1], own[:, t + 1 :]], dim=1)
        close(patched[:, t:], model(spliced)[:, t:], 2e-6)
        close(patched[:, :t], model(own)[:, :t], 2e-6)
        if t == 3:
            assert (patched[:, 4:] - model(own)[:, 4:]).abs().max() > 1e-2


def test_half_of_an_lstm_s_state_is_not_enough(tokens: Tensor) -> None:
    model = recurrent("lstm")
    own, other = tokens[:2], tokens[2:]
    donated = states(model, other)
    spliced = model(torch.cat([other[:, :4], own[:, 4:]], dim=1))
    for kind in ("hook_cell", "hook_resid_post"):
        hooks = [(p, put(3, donated[p][:, 3])) for p in state_points(model) if p.endswith(kind)]
        patched = model.run_with_hooks(own, fwd_hooks=hooks)
        assert (patched[:, 4:] - spliced[:, 4:]).abs().max() > 1e-3


def test_a_changed_cell_is_what_the_output_gate_lets_through(tokens: Tensor) -> None:
    """h = o tanh(c): with the cell at 0 the hidden state is 0, and far out it is +-o."""
    model = recurrent("lstm", n_layers=1)
    heard: dict[float, Tensor] = {}
    for value in (0.0, 50.0, -50.0):

        def keep(activation: Tensor, hook: object, value: float = value) -> None:
            heard[value] = activation.detach()

        hooks: list[Hook] = [("blocks.0.hook_cell", put(3, torch.tensor(value)))]
        hooks.append(("blocks.0.hook_resid_post", keep))
        model.run_with_hooks(tokens, fwd_hooks=hooks)
    assert (heard[0.0][:, 3] == 0).all()
    close(heard[50.0][:, 3], -heard[-50.0][:, 3])
    rnn, x = model.blocks[0].rnn, nn.functional.embedding(tokens, model.W_E)
    before = rnn(x)[0][:, 2]
    w_x, w_h, b_x, b_h = (p.chunk(4)[3] for p in rnn.parameters())
    close(heard[50.0][:, 3], (x[:, 3] @ w_x.T + b_x + before @ w_h.T + b_h).sigmoid(), 2e-6)


@RECURRENT
def test_a_hook_sees_the_states_so_far(tokens: Tensor, kind: str) -> None:
    model, shown = recurrent(kind), []
    hook = ("blocks.0.hook_resid_post", lambda x, hook: shown.append(x.detach()))
    model.run_with_hooks(tokens, fwd_hooks=[hook])
    final = states(model, tokens)["blocks.0.hook_resid_post"]
    assert len(shown) == 8
    for t, seen in enumerate(shown):
        close(seen[:, : t + 1], final[:, : t + 1])
        assert (seen[:, t + 1 :] == 0).all()


# -- the convolutional network ------------------------------------------------------------------


def convolutional(**changes: object) -> HookedConvolution:
    config = replace(SMALL, architecture="cnn", act_fn="gelu", **changes)
    return stir(build(config, ABC, 0)).double().eval()


@pytest.mark.parametrize(
    ("n_layers", "kernel_size"), [(n, k) for n in (1, 2, 3) for k in (1, 2, 3, 5)]
)
def test_the_receptive_field(n_layers: int, kernel_size: int) -> None:
    """n_layers (kernel_size - 1) + 1 tokens, the own among them."""
    model = convolutional(n_layers=n_layers, kernel_size=kernel_size)
    drawn = torch.randint(2, 5, (4, 16), generator=torch.Generator().manual_seed(0))
    seen = set()
    for t in range(16):
        changed = drawn.clone()
        changed[:, t] = 2 + (changed[:, t] - 1) % 3
        moved = (model(drawn) - model(changed)).abs().amax(dim=(0, 2))
        seen |= {at - t for at in range(16) if moved[at] > 1e-12}
    assert seen == set(range(n_layers * (kernel_size - 1) + 1))


@pytest.mark.parametrize("placement", ["pre", "post", "sandwich"])
@pytest.mark.parametrize("kernel_size", [1, 3])
@pytest.mark.parametrize("residual", [True, False])
def test_the_network_is_its_equations(
    tokens: Tensor, placement: str, kernel_size: int, residual: bool
) -> None:
    model = convolutional(norm_placement=placement, kernel_size=kernel_size, residual=residual)

    def norm(x: np.ndarray, part: nn.Module | None = None) -> np.ndarray:
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + model.config.eps)
        return x if part is None else x * part.weight.detach().numpy() + part.bias.detach().numpy()

    def conv(x: np.ndarray, part: nn.Module) -> np.ndarray:
        kernel, bias = part.kernel.weight.detach().numpy(), part.kernel.bias.detach().numpy()
        hidden = np.tile(bias, (len(x), 1))
        for t, back in itertools.product(range(len(x)), range(kernel_size)):
            if t >= back:
                hidden[t] += kernel[:, :, kernel_size - 1 - back] @ x[t - back]
        act = np.vectorize(lambda v: v * 0.5 * (1 + math.erf(v / math.sqrt(2))))(hidden)
        return act @ part.out.weight.detach().numpy().T + part.out.bias.detach().numpy()

    rows = []
    for word in tokens:
        x = model.W_E.detach().numpy()[word]
        for block in model.blocks:
            if placement == "post":
                x = norm(x * residual + conv(x, block.conv), block.ln1)
                continue
            y = conv(norm(x, block.ln1), block.conv)
            x = x * residual + (y if placement == "pre" else norm(y, block.ln1_post))
        x = x if placement == "post" else norm(x)
        rows.append(x @ model.W_U.detach().numpy() + model.b_U.detach().numpy())
    expected = torch.as_tensor(np.stack(rows))
    close(model(tokens), expected, 1e-10)
    close(model.run_with_cache(tokens)[0], expected, 1e-10)
    assert expected.abs().max() > 1


# -- the n-gram model ---------------------------------------------------------------------------


def ngram(order: int, vocabulary: Vocabulary = ABC) -> HookedNGram:
    return build(ModelConfig(architecture="ngram", order=order), vocabulary).eval()


def context(word: tuple[int, ...], t: int, k: int) -> tuple[int, ...]:
    """The last k tokens at position t; before the word there is BOS."""
    return ((0,) * k + word[: t + 1])[t + 1 :] if k else ()


Corpus = list[tuple[tuple[int, ...], np.ndarray, np.ndarray]]


Counts = Counter[tuple[tuple[int, ...], int]]


def counts_of(corpus: Corpus, order: int) -> tuple[Counts, Counts]:
    """Counts of tokens that were allowed after a context, and of those that were asked for."""
    allowed, seen = Counts(), Counts()
    for line, target, weight in corpus:
        for t, k in itertools.product(range(len(line)), range(order)):
            for v in range(target.shape[1]):
                seen[context(line, t, k), v] += weight[t, v]
                allowed[context(line, t, k), v] += weight[t, v] * target[t, v]
    return allowed, seen


def by_hand(counts: tuple[Counts, Counts], word: tuple[int, ...], order: int) -> np.ndarray:
    """p_k = (allowed_k + p_{k-1}) / (seen_k + 1), p_{-1} = 1/2."""
    allowed, seen = counts
    out = np.full((len(word), 1 + max(v for _, v in seen)), 0.5)
    for t, v in np.ndindex(*out.shape):
        for k in range(order):
            key = context(word, t, k), v
            out[t, v] = (allowed[key] + out[t, v]) / (seen[key] + 1)
    return out


@pytest.mark.parametrize("taught", OBJECTIVES)
@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
def test_the_probabilities_are_counts(order: int, taught: str) -> None:
    lang = (
        Reordering("pairs", "ab", same, "context-sensitive", "")
        if taught in ("sequence-to-sequence", "tags")
        else language("anbn")
    )
    corpus: Corpus = []
    model = ngram(order, lang.vocabulary)
    for seed in (0, 1):
        label = True if objective(taught).tags else None
        words = lang.sample(np.random.default_rng(seed), 8, lang.lengths(3), label).words
        batch = objective(taught).batch(lang, words)
        model.count(batch.tokens, batch.target, batch.weight)
        parts = (batch.tokens.tolist(), batch.target.numpy(), batch.weight.numpy())
        corpus += [
            (tuple(line), target, weight) for line, target, weight in zip(*parts, strict=True)
        ]
    tested = [
        (0,),
        *((0, *rest) for n in (1, 3) for rest in itertools.product((2, 3), repeat=n)),
    ]
    counts = counts_of(corpus, order)
    for word in tested:
        p = model(torch.tensor([word]))[0].sigmoid().numpy()
        expected = np.clip(by_hand(counts, word, order), 1e-6, 1 - 1e-6)
        np.testing.assert_allclose(p, expected, rtol=1e-4, atol=1e-6)
    assert np.ptp(expected) > 0.05


def test_an_unseen_context_says_what_the_next_shorter_one_says() -> None:
    model = ngram(3)
    target = torch.zeros(1, 3, 5)
    target[0, :, 2] = 1
    model.count(torch.tensor([[0, 2, 2]]), target, torch.ones(1, 3, 5))
    row = model(torch.tensor([[0, 3, 2]]))[0, -1]  # "b a" was never seen, "a" was
    close(row, model(torch.tensor([[0, 2, 4, 2]]))[0, -1])
    counts = counts_of([((0, 2, 2), target[0].numpy(), np.ones((3, 5)))], 2)
    shorter = by_hand(counts, (0, 2, 2), 2)[-1]
    close(row.sigmoid(), torch.as_tensor(shorter).float(), 1e-6)
    assert (model(torch.tensor([[0, 2, 2]]))[0, -1] - row).abs().max() > 0.1
    assert (ngram(3)(torch.tensor([[0, 2]])) == 0).all()  # p = 1/2 before anything was learned


def test_training_is_counting(tmp_path: Path) -> None:
    """The run's tables are those of its own words, counted once."""
    config = tiny_config(steps=4, model=replace(TINY, architecture="ngram", order=2))
    run = Run.create(tmp_path / "run", config)
    train(run, device="cpu")
    lang, corpus = run.language, []
    for step in range(4):
        batch = run.objective.batch(lang, words_of(config, lang, step)[0])
        parts = (batch.tokens.tolist(), batch.target.numpy(), batch.weight.numpy())
        corpus += [
            (tuple(line), target, weight) for line, target, weight in zip(*parts, strict=True)
        ]
    p = run.model()(torch.tensor([[0, 2, 2, 3, 3]]))[0].sigmoid().detach().numpy()
    np.testing.assert_allclose(
        p, by_hand(counts_of(corpus, 2), (0, 2, 2, 3, 3), 2), rtol=1e-4, atol=1e-5
    )


@cache
def counted(order: int) -> HookedNGram:
    """A model that knows different things about every context."""
    model, generator = ngram(order), torch.Generator().manual_seed(1)
    for k in range(order):
        seen = torch.randint(0, 9, (5**k, 5), generator=generator).float()
        model.get_buffer(f"seen_{k}").copy_(seen)
        model.get_buffer(f"allowed_{k}").copy_(
            (seen * torch.rand(5**k, 5, generator=generator)).round()
        )
    return model


POINT = "blocks.0.hook_resid_pre"


@pytest.mark.parametrize("order", [2, 3, 5])
def test_the_window_is_all_that_is_remembered(tokens: Tensor, order: int) -> None:
    """With another word's window the model says what it says of that word."""
    model = counted(order)
    own, other = tokens[:2], tokens[2:]
    _, cache = model.run_with_cache(other)
    donated = cache[POINT]
    whole = model.run_with_hooks(own, fwd_hooks=[(POINT, lambda x, hook: donated)])
    assert torch.equal(whole, model(other))
    one = model.run_with_hooks(own, fwd_hooks=[(POINT, put(4, donated[:, 4]))])
    assert torch.equal(one[:, 4], model(other)[:, 4])
    rest = [t for t in range(8) if t != 4]
    assert torch.equal(one[:, rest], model(own)[:, rest])
    assert (model(own) - model(other)).abs().max() > 0.1


@pytest.mark.parametrize("order", [1, 2, 4])
def test_the_window_holds_the_last_tokens_the_oldest_first(tokens: Tensor, order: int) -> None:
    logits, cache = counted(order).run_with_cache(tokens)
    assert torch.equal(logits, counted(order)(tokens))
    if order == 1:
        assert cache[POINT].shape == (4, 8, 1)
        assert (cache[POINT] == 0).all()
        return
    window = cache[POINT].view(4, 8, order - 1, 5)
    assert (window.sum(-1) == 1).all()
    for b, t in np.ndindex(4, 8):
        word = tuple(tokens[b].tolist())
        assert tuple(window[b, t].argmax(-1).tolist()) == context(word, t, order - 1)


@settings(max_examples=30)
@given(st.lists(st.integers(2, 4), min_size=1, max_size=8), st.integers(1, 4))
def test_what_lies_before_the_window_is_forgotten(word: list[int], order: int) -> None:
    model = counted(order)
    last = torch.tensor([[0] * (order - 1) + word])
    before = torch.tensor([[0, 4, 3, 2] + [0] * (order - 1) + word])
    n = len(word)
    assert torch.equal(model(last)[:, -n:], model(before)[:, -n:])


def test_a_table_that_is_too_large_is_refused() -> None:
    letters = Vocabulary(tuple("abcdefghijklmnopqrstuvwxyz0123456789"))
    assert ngram(4, letters).get_buffer("seen_3").shape == (38**3, 38)
    with pytest.raises(UserError, match=r"^an n-gram of order 5 over 38 tokens [^\n]*order$"):
        ngram(5, letters)
