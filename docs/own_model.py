"""The lenses on a model of your own, each in at most ten lines.

    python docs/own_model.py [picture.svg]

``interp`` takes any model with TransformerLens' hook names. Here it is a ``TransformerBridge``, as
TransformerLens makes one of GPT-2 and its kin. What a lens asks of a model is in interp/model.py.

A small decoder learns, in seconds, whether a word of a and b has more a than b. So the truth is
known: the answer hangs on one number, the difference of a and b, and the lenses should find it.
"""

from __future__ import annotations

import sys

import altair as alt
import numpy as np
import pandas as pd
import torch
from torch.nn.functional import cross_entropy
from transformer_lens.config import TransformerBridgeConfig
from transformer_lens.model_bridge import TransformerBridge

from interp.causal.alignment import Cases, exchanged
from interp.causal.metrics import logit_difference_at
from interp.causal.patching import over_pairs, patch
from interp.circuits.circuits import Bench, Quality, smallest
from interp.circuits.effects import edge_effects
from interp.circuits.scores import by_edge, edge_scores
from interp.explanations.case import Case
from interp.explanations.explain import explain, judge
from interp.explanations.games import Game, on_both_scales
from interp.model import activations
from interp.probing.best_sites import best_sites
from interp.probing.probes import Target, baseline, probe_sites

BOS, MORE_A, MORE_B, A, B = range(5)
LENGTH = 9  # symbols of a word: an odd number has no draws
STREAM = [*(f"blocks.{layer}.hook_resid_pre" for layer in (0, 1)), "blocks.1.hook_resid_post"]
VERDICT = logit_difference_at(MORE_A, MORE_B)  # at the last position


# -- a model and its task: here yours would stand -------------------------------------------------


def untrained() -> TransformerBridge:
    """Two layers of two heads, and a vocabulary of five."""
    size = {"n_layers": 2, "n_heads": 2, "d_model": 16, "d_head": 8, "d_mlp": 32}
    words = {"n_ctx": LENGTH + 1, "d_vocab": 5, "default_prepend_bos": False}
    config = TransformerBridgeConfig(**size, **words, normalization_type="LN", seed=0)
    return TransformerBridge.boot_native(config).eval()


def drawn(count: int, seed: int) -> torch.Tensor:
    """Words, BOS first: [count, LENGTH + 1]."""
    generator = torch.Generator().manual_seed(seed)
    symbols = torch.randint(A, B + 1, (count, LENGTH), generator=generator)
    return torch.cat([torch.full((count, 1), BOS), symbols], dim=1)


def difference(tokens: torch.Tensor) -> torch.Tensor:
    """The truth: how many more a than b there were up to each position."""
    return ((tokens == A).int() - (tokens == B).int()).cumsum(dim=1)


def answer(tokens: torch.Tensor) -> torch.Tensor:
    """The right next token after each word."""
    return torch.where(difference(tokens)[:, -1] > 0, MORE_A, MORE_B)


def trained(steps: int = 150) -> TransformerBridge:
    """The same model, taught the answer after each word. It then gets every word right."""
    model = untrained()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(steps):
        tokens = drawn(64, seed=step)
        optimizer.zero_grad()
        cross_entropy(model(tokens)[:, -1], answer(tokens)).backward()
        optimizer.step()
    return model


def minimal_pairs(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Words with one more a than b, and the same words with one a, drawn at random, made a b."""
    clean = drawn(16 * count, seed=10_000)
    clean = clean[difference(clean)[:, -1] == 1][:count]
    where = (clean == A).float().multinomial(1, generator=torch.Generator().manual_seed(0))
    return clean, clean.scatter(1, where, B)


def scores(words: np.ndarray, model: TransformerBridge | None = None) -> np.ndarray:
    """The log odds that words without BOS have more a; without a model, the truth: 1 or 0."""
    tokens = torch.as_tensor(np.pad(words, ((0, 0), (1, 0)), constant_values=BOS))
    if model is None:
        return (answer(tokens) == MORE_A).double().numpy()
    with torch.no_grad():
        return VERDICT(model(tokens)).double().numpy()


def pairs(count: int, seed: int) -> Cases:
    """Two words each, and the answer to the first, had it the difference of the second."""
    base, source = drawn(2 * count, seed).chunk(2)
    end = torch.full((count, 1), LENGTH)
    target = answer(source)[:, None] == torch.arange(5)
    return Cases.exchange(base, source, end, end, end[:, 0], target, torch.arange(5), alone=False)


# -- the lenses -----------------------------------------------------------------------------------


def patching(model: TransformerBridge, picture: str) -> pd.DataFrame:
    """Which activation carries the difference between two words that one symbol tells apart?"""
    clean, corrupted = minimal_pairs(32)
    effects = over_pairs(patch(model, clean, corrupted, VERDICT, ["resid_pre", "attn_out"]))
    base = alt.Chart(effects).encode(alt.X("position:O"), alt.Y("layer:O", sort="descending"))
    cells = base.mark_rect().encode(alt.Color("effect:Q").scale(scheme="blues"))
    cells.properties(width=300).facet("component:N", columns=1).save(picture)
    shown = ["component", "layer", "position", "effect", "low", "high"]
    return effects.nlargest(4, "effect")[shown]


def circuit(model: TransformerBridge) -> pd.DataFrame:
    """Which parts, reading what of each other, do it? Found on half of the pairs."""
    clean, corrupted = minimal_pairs(64)
    seen, held_out = (Bench(model, clean[i::2], corrupted[i::2], VERDICT) for i in (0, 1))
    effects = edge_effects(model, seen.clean, seen.corrupted, VERDICT, ["exact", "EAP-IG"])
    edges = smallest(seen, edge_scores(effects)["exact, noising"], goal=0.95)
    found = Quality.on(held_out, edges)
    print(f"{len(edges)} of {found.of} edges are {found.faithfulness:.2f} faithful on other pairs")
    return by_edge(effects, edges).query("circuit").nlargest(4, "exact").drop(columns="circuit")


def probing(model: TransformerBridge) -> pd.DataFrame:
    """Where is the difference read off best, and what of that is there without learning?"""
    tokens = drawn(400, seed=1)
    fit, choose = np.arange(400) % 2 == 0, np.arange(400) % 4 == 1  # the others are scored
    at_the_end = np.zeros(tokens.shape, dtype=bool) | (np.arange(LENGTH + 1) == LENGTH)
    targets = {"a - b": Target(difference(tokens).numpy(), at_the_end, "count")}
    tables = [baseline(targets, fit, choose=choose).assign(model="no activation")]
    for name, viewed in (("untrained", untrained()), ("trained", model)):
        sites = {hook: x.numpy() for hook, x in activations(viewed, tokens, STREAM).items()}
        tables.append(probe_sites(sites, targets, fit, choose=choose).assign(model=name))
    shuffled = probe_sites(sites, targets, fit, shuffled=True, choose=choose)
    return best_sites(pd.concat([*tables, shuffled.assign(model="shuffled")]))


def lime_against_shap(model: TransformerBridge) -> pd.DataFrame:
    """What did each symbol do for one answer, and how right is who says so?"""
    word, *others = drawn(17, seed=2)[:, 1:].numpy()  # the others stand in for hidden symbols
    said = Game(lambda words: scores(words, model), word, np.stack(others), on_both_scales)
    truth = Game(scores, word, np.stack(others))
    case = Case(said, model, MORE_A, LENGTH, np.array([A, B]), truth)
    found = judge(case, explain(case, ["LIME", "SHAP kernel", "SHAP exact", "random"]))
    truths = ["cosine to the model", "cosine to the language"]
    return found[["method", "scale", *truths, "error", "calls"]]


def das(model: TransformerBridge) -> pd.DataFrame:
    """Is one direction all that the difference is, where the answer is read?"""
    fit, test = pairs(256, seed=3), {"test": pairs(128, seed=4)}
    found = [
        exchanged(viewed, STREAM[1:2], fit, test).assign(model=name)
        for name, viewed in (("trained", model), ("untrained", untrained()))
    ]
    return pd.concat(found).pivot(index=["method", "amount"], columns="model", values="value")


def main(picture: str = "patching.svg") -> None:
    """Trains the model, and prints the table of each lens."""
    model = trained()
    words = drawn(500, seed=20_000)
    right = (model(words)[:, -1].argmax(dim=1) == answer(words)).double().mean()
    print(f"The model answers {right:.0%} of 500 new words right.")
    for lens in (patching, circuit, probing, lime_against_shap, das):
        print(f"\n{lens.__name__}: {lens.__doc__}")
        table = lens(model, picture) if lens is patching else lens(model)
        print(table.to_string(float_format="{:.2f}".format, index=lens is das))
    print(f"\nThe heatmap of patching is in {picture}.")


if __name__ == "__main__":
    main(*sys.argv[1:2])
