"""The explanations of a bridge, against gradients of the plain model. Used by test_bridges."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from bridges import VOCABULARY, Pair, words
from torch import Tensor

from interp.explanations.case import Case
from interp.explanations.explain import explain
from interp.explanations.games import SCALES, Game, exact_shapley, on_both_scales
from interp.explanations.saliency import (
    PARTS,
    POINTS,
    deeplift,
    gradient_x_input,
    integrated_gradients,
    smoothgrad,
)

TOKEN, AT = 2, 3
Score = Callable[[np.ndarray], np.ndarray]


def case(models: Pair, model: Callable[[Tensor], Tensor]) -> Case:
    """One next token of a language model: its tokens exclude each other."""
    (word, *others), _ = words(4)

    def score(symbols: np.ndarray) -> np.ndarray:
        tokens = torch.as_tensor(np.pad(symbols, ((0, 0), (1, 0))))
        with torch.no_grad():
            p = model(tokens)[:, AT].softmax(dim=-1)[:, TOKEN]
            return (p / (1 - p)).log().numpy()

    game = Game(score, word[1:].numpy(), torch.stack(others)[:, 1:].numpy(), on_both_scales)
    return Case(game, models.bridge, TOKEN, AT, np.arange(VOCABULARY), softmax=True)


def embeddings(models: Pair, tokens: Tensor) -> Tensor:
    with torch.no_grad():
        return models.plain.model.get_input_embeddings()(tokens)


def gradient(models: Pair, asked: Case, points: Tensor) -> Tensor:
    """Of the verdict's log odds, p / (1 - p), at embeddings that take the word's place."""
    word = asked.word.expand(len(points), -1)
    moved = (points - embeddings(models, word)).requires_grad_()

    def change(x: Tensor) -> None:
        x += moved

    logits = models.plain.run(word, {("resid_pre", 0): change})[:, AT]
    p = logits.softmax(dim=-1)[:, TOKEN]
    (found,) = torch.autograd.grad((p / (1 - p)).log().sum(), moved)
    return found


def close(found: np.ndarray, expected: Tensor) -> None:
    assert found == pytest.approx(expected.sum(dim=-1).mean(dim=0)[1:].numpy(), abs=1e-4)
    assert np.abs(found).max() > 1e-2


def gradients(models: Pair) -> None:
    """Gradient x input, SmoothGrad and integrated gradients, by the plain model's own gradients."""
    asked = case(models, models.bridge)
    x, start = embeddings(models, asked.word[None]), embeddings(models, asked.baselines)
    found = gradient_x_input(models.bridge, asked.word, asked.metrics["log odds"])
    close(found, gradient(models, asked, x) * x)

    drawn = torch.randn(
        (24, *x.shape[1:]), generator=torch.Generator().manual_seed(0), dtype=x.dtype
    )
    noisy = x + drawn * 0.15 * (x.max() - x.min())
    found = smoothgrad(models.bridge, asked.word, asked.metrics["log odds"])
    close(found, gradient(models, asked, noisy).mean(dim=0, keepdim=True) * x)

    nodes = list(zip(*np.polynomial.legendre.leggauss(POINTS), strict=True))
    shares = [((part + (1 + at) / 2) / PARTS, w / 2) for part in range(PARTS) for at, w in nodes]
    mean = sum(w / PARTS * gradient(models, asked, start + at * (x - start)) for at, w in shares)
    metric = asked.metrics["log odds"]
    found = integrated_gradients(models.bridge, asked.word, asked.baselines, [metric], 1)[0]
    close(found, mean * (x - start))


def note(seen: list[tuple[Tensor, Tensor]], _: object, args: tuple[Tensor], out: Tensor) -> None:
    seen.append((args[0], out))


def rescale_rule(models: Pair) -> None:
    """DeepLift: the slope of each activation function is that between the word and a baseline."""
    asked, plain = case(models, models.bridge), models.plain
    found = deeplift(models.bridge, asked.word, asked.baselines, asked.metrics["log odds"])
    values = []
    for baseline in asked.baselines:
        acts = [getattr(block.mlp, plain.names.act) for block in plain.layers]
        seen: list[tuple[Tensor, Tensor]] = []
        keep = partial(note, seen)
        handles = [act.register_forward_hook(keep) for act in acts]
        with torch.no_grad():
            plain(baseline[None])
        for handle in handles:
            handle.remove()

        def straight(at: tuple[Tensor, Tensor]) -> Callable[..., Tensor]:
            def replace(_: object, args: tuple[Tensor], out: Tensor) -> Tensor:
                x, run = args[0], (args[0] - at[0]).detach()
                slope = (out - at[1]).detach() / torch.where(run == 0, 1, run)
                return torch.where(run == 0, out, out.detach() + slope * (x - x.detach()))

            return replace

        handles = [a.register_forward_hook(straight(at)) for a, at in zip(acts, seen, strict=True)]
        x, start = embeddings(models, asked.word[None]), embeddings(models, baseline[None])
        values.append(gradient(models, asked, x) * (x - start))
        for handle in handles:
            handle.remove()
    close(found, torch.cat(values))


def scores_alone(models: Pair) -> None:
    """LIME and SHAP ask for scores alone; all methods that are offered explain the same verdict."""
    asked, by_hand = case(models, models.bridge), case(models, models.plain)
    expected = exact_shapley(by_hand.game)
    assert exact_shapley(asked.game) == pytest.approx(expected, abs=1e-6)
    with torch.no_grad():
        p = models.plain(asked.word[None])[0, AT].softmax(dim=-1)[TOKEN]
        found = asked.metrics["log odds"](models.bridge(asked.word[None]))
    assert found.item() == pytest.approx(float((p / (1 - p)).log()), abs=1e-5)
    table = explain(asked)
    assert "direct logit attribution" not in set(table["method"])
    assert np.isfinite(table["value"]).all()
    for method in ("SHAP exact", "Shapley exact"):
        for scale, values in zip(SCALES, expected, strict=True):
            own = table[(table["method"] == method) & (table["scale"] == scale)]
            assert own["value"].to_numpy() == pytest.approx(values, abs=1e-5)
