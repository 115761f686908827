"""Every lens on a second device: nothing meets the CPU by mistake, and the numbers are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import SMALL, stir
from devices import SECOND, second_device
from torch import Tensor

from interp.automata.transitions import carriers
from interp.causal import metrics
from interp.causal.ablation import ablate
from interp.causal.alignment import Cases, aligned, answered, displacements, within
from interp.causal.patching import patch, patched_logits
from interp.causal.sites import Site
from interp.circuits.circuits import Bench, Quality, curve, smallest
from interp.circuits.controls import random_scores
from interp.circuits.effects import edge_effects
from interp.explanations.case import Case
from interp.explanations.explain import explain
from interp.explanations.games import Game, on_both_scales
from interp.explanations.methods import GATES, METHODS
from interp.heads.attention import attention, patterns
from interp.heads.attention_and_effect import attention_and_effect
from interp.heads.logit_attribution import direct_by_position, direct_logit_attribution
from interp.heads.qk_and_ov import ov_circuit, qk_circuit
from interp.heads.rollout_and_flow import flow, rollout
from interp.heads.types import head_types
from interp.model import activations
from interp.probing.erasure import Eraser
from interp.probing.erasure_trials import erasure_trials
from interp.probing.probes import Target
from interp.probing.steering import direction, random_direction
from interp.probing.steering_trials import SteeringTrials
from models.base import LanguageModel, build
from models.choices import Counting
from models.languages import END_ID, Vocabulary
from models.model_config import ModelConfig
from models.transformer.model import HookedTransformer

VOCABULARY = Vocabulary(("a", "b", "c"))
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "learned": {"positions": "learned", "norm": "rms", "norm_placement": "sandwich"},
    "alibi": {"positions": "alibi", "mask": "strictly_causal", "mlp": "none"},
    "rotary": {"positions": "rotary", "norm_placement": "post", "mlp": "gated"},
    "encoder": {"mask": "bidirectional", "positions": "t5", "scores": "additive"},
    "counters": {"counting": Counting(averaging_heads=1, counters=True)},
    "averaging": {"counting": Counting(averaging_heads=1, head_norm=True)},
    "lstm": {"architecture": "lstm"},
    "gru": {"architecture": "gru"},
    "rnn": {"architecture": "rnn"},
    "cnn": {"architecture": "cnn"},
    "ngram": {"architecture": "ngram"},
}
STREAM = "blocks.1.hook_resid_pre"


@dataclass
class Asked:
    """A model and words, all on one device."""

    model: LanguageModel
    clean: Tensor
    corrupted: Tensor
    mask: Tensor
    at: Tensor
    metric: metrics.ReadAt

    @classmethod
    def on(cls, device: torch.device, kind: str) -> Asked:
        config = ModelConfig(**{**SMALL.__dict__, "n_heads": 2, **KINDS[kind]})
        model = build(config, VOCABULARY, 0)
        if kind != "ngram":
            stir(model)
        model.to(device).eval()
        words = [["abcab", "bbabb", "caabc"], ["abaab", "bbabc", "ccbaa"]]
        clean, corrupted = (model.to_tokens(some) for some in words)
        at = torch.tensor([5, 4, 5]).to(device)
        mask = torch.arange(6).to(device) <= at[:, None]
        return cls(model, clean, corrupted, mask, at, metrics.logit_at(END_ID, at))

    def right(self, *hooks: Any) -> np.ndarray:
        with torch.no_grad():
            logits = self.model.run_with_hooks(self.clean, fwd_hooks=list(hooks))
        return (self.metric(logits) > 0).double().cpu().numpy()


def patched(asked: Asked, *components: str) -> pd.DataFrame:
    """By all metrics."""
    with torch.no_grad():
        logits = asked.model(asked.clean)[torch.arange(3, device=asked.at.device), asked.at]
    by_name = {
        "logit": asked.metric,
        "difference": metrics.logit_difference_at(END_ID, 2),
        "probability": metrics.probability_at(END_ID, asked.at),
        "closeness": metrics.closeness_at(logits, asked.at, softmax=True),
    }
    return patch(asked.model, asked.clean, asked.corrupted, by_name, components)


def circuit(asked: Asked) -> list[Any]:
    """Of random scores, so that the search takes and leaves edges."""
    found: list[Any] = []
    for ablation in ("mean", "resample"):
        bench = Bench(asked.model, asked.clean, asked.corrupted, asked.metric, ablation)
        found.append(Quality.on(bench, bench.graph.edges[::3]).faithfulness)
    (scores,) = random_scores(bench.graph, 1, 0)
    chosen = [bench.graph.edges.index(edge) for edge in smallest(bench, scores, 0.2)]
    return [*found, chosen, curve(bench, scores)]


def interchanged(asked: Asked) -> pd.DataFrame:
    """Trained for one epoch."""
    to, right = asked.at[:, None].cpu(), (asked.at > 4)[:, None].cpu()
    pairs = asked.clean.cpu(), asked.corrupted.cpu()
    cases = Cases.exchange(*pairs, to, to, to[:, 0], right, torch.tensor([END_ID]))
    moved = displacements(asked.model, [STREAM], cases)[STREAM]
    basis = aligned(asked.model, STREAM, cases, moved, 1, epochs=1)
    right_with = answered(asked.model, STREAM, cases, moved, within(basis, 1))
    return pd.DataFrame({"right": right_with})


def erased(asked: Asked) -> pd.DataFrame:
    """The activations come from the CPU, the erasers work in the model."""
    sites = activations(asked.model, asked.clean, [STREAM])
    values = (asked.clean == 2).cumsum(dim=1).cpu().numpy()
    target = Target(values, asked.mask.cpu().numpy(), "count")
    return erasure_trials(sites, {"a": target}, np.array([True, True, False]), asked.right)


def eraser_there(asked: Asked) -> list[Any]:
    """The activations never leave the device."""
    _, cache = asked.model.run_with_cache(asked.clean, names_filter=[STREAM])
    x = cache[STREAM].detach()[asked.mask]
    erasers = [Eraser.fit(x, (x[:, :1] > 0)), Eraser.random(x, 2, 0)]
    return [part for eraser in erasers for part in (eraser(x).cpu(), eraser.changed(x))]


def steered(asked: Asked) -> list[Any]:
    """Along a direction from the CPU, and along one of the device."""
    _, cache = asked.model.run_with_cache(asked.clean, names_filter=[STREAM])
    x, z = cache[STREAM].detach().flatten(0, 1), (asked.clean == 2).flatten()
    trials = SteeringTrials(np.array([0]), lambda *hooks: asked.right(*hooks)[None])
    own = direction(x, z)
    amount = torch.ones(asked.clean.shape)
    return [
        trials.along(STREAM, own, amount.to(own.device)),
        trials.along(STREAM, own.cpu(), amount),
        random_direction(own, 0).cpu(),
    ]


def explained(asked: Asked, *methods: str) -> pd.DataFrame:
    hidden, word = (ids[:, 1:].cpu().numpy() for ids in (asked.corrupted, asked.clean))

    @torch.no_grad()
    def score(ids: np.ndarray) -> np.ndarray:
        tokens = torch.as_tensor(np.pad(ids, ((0, 0), (1, 0)))).to(asked.model.device)
        return asked.model(tokens)[:, 5, END_ID].double().cpu().numpy()

    game = Game(score, word[0], hidden, on_both_scales)
    case = Case(game, asked.model, END_ID, 5, np.arange(2, 5), samples=40)
    return explain(case, methods).drop(columns="seconds")


def looked_at(asked: Asked) -> list[Any]:
    """What attention shows."""
    word, changed, metric = asked.clean[0], asked.corrupted[:2], metrics.logit_at(END_ID, 5)
    pattern = attention(asked.model, asked.clean)[0][:, 0]
    return [
        patterns(asked.model, asked.clean[:1]),
        attention_and_effect(asked.model, word, changed, metric, 5),
        head_types(asked.model, asked.clean, asked.mask),
        rollout(pattern),
        flow(pattern, 5),
    ]


def last_logits(asked: Asked) -> Tensor:
    model = asked.model
    assert isinstance(model, HookedTransformer)
    return model.last_logits(torch.cat([asked.clean, asked.corrupted])).cpu()


def pairs_of(asked: Asked) -> tuple[LanguageModel, Tensor, Tensor, metrics.ReadAt]:
    return asked.model, asked.clean, asked.corrupted, asked.metric


LOOKING = [
    name
    for name, method in METHODS.items()
    if method.family in ("attention", "gradient") and name != GATES  # which are an LSTM's
]
GRADIENTS = [name for name in LOOKING if METHODS[name].family == "gradient"]
RIVALS = ["rnn", "lstm", "gru", "cnn"]
LENSES: dict[str, tuple[Callable[[Asked], Any], list[str]]] = {
    "activations": (lambda q: activations(q.model, q.clean, [STREAM]), ["plain"]),
    "patching": (
        lambda q: patched(q, "resid_pre", "z", "v", "pattern"),
        ["rotary", "encoder", "counters"],
    ),
    "patching of all else": (lambda q: patched(q, "resid_mid", "mlp_out", "neuron"), ["plain"]),
    "patching the stream": (lambda q: patched(q, "resid_pre", "resid_post"), RIVALS),
    "patching a window": (lambda q: patched(q, "resid_pre"), ["ngram"]),
    "patching whole": (lambda q: patch(*pairs_of(q), ("z", "q"), whole=True), ["plain"]),
    "patched logits": (
        lambda q: patched_logits(q.model, q.clean, q.corrupted, Site("z", 1, 5, 0)).cpu(),
        ["plain"],
    ),
    "edges": (lambda q: edge_effects(*pairs_of(q), steps=2), ["alibi", "counters"]),
    "circuits": (circuit, ["plain"]),
    "ablation": (
        lambda q: [
            ablate(q.model, q.clean, q.mask, q.metric, method)
            for method in ("mean", "zero", "resample")
        ],
        ["plain", "counters"],
    ),
    "interchange": (interchanged, ["plain"]),
    "carriers": (
        lambda q: carriers(q.model, (q.clean, q.corrupted), [(0, 1)] * 3, q.metric),
        ["plain"],
    ),
    "erasure": (erased, ["plain"]),
    "an eraser on the device": (eraser_there, ["plain", "gru"]),
    "steering": (steered, ["plain", "lstm"]),
    "attention": (looked_at, ["encoder"]),
    "logit attribution": (
        lambda q: [
            direct_logit_attribution(q.model, q.clean, q.at, END_ID),
            direct_by_position(q.model, q.clean[0], 5, END_ID),
        ],
        ["learned", "rotary", "averaging"],
    ),
    "QK and OV": (
        lambda q: [qk_circuit(q.model, 1, 1), ov_circuit(q.model, 1, 1)],
        ["encoder", "averaging"],
    ),
    "explanations": (lambda q: explained(q, *LOOKING), ["plain"]),
    "gradients": (
        lambda q: explained(q, *GRADIENTS),
        ["lstm", "cnn"],  # every recurrence takes its gradients the same way
    ),
    "shared prefixes": (last_logits, ["learned", "alibi", "counters"]),
}


def numbers(answer: Any) -> Iterator[np.ndarray]:
    """All numbers of an answer, which must be on the CPU."""
    if isinstance(answer, pd.DataFrame):
        yield answer.select_dtypes("number").to_numpy(float)
    elif isinstance(answer, dict):
        yield from numbers(list(answer.values()))
    elif isinstance(answer, list):
        for part in answer:
            yield from numbers(part)
    else:
        yield np.asarray(answer.detach() if isinstance(answer, Tensor) else answer, dtype=float)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("lens", "kind"), [(lens, kind) for lens, (_, kinds) in LENSES.items() for kind in kinds]
)
def test_a_lens_answers_alike_on_both_devices(lens: str, kind: str) -> None:
    ask = LENSES[lens][0]
    expected = list(numbers(ask(Asked.on(torch.device("cpu"), kind))))
    with second_device():
        found = list(numbers(ask(Asked.on(SECOND, kind))))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)
