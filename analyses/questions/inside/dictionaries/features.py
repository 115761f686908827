"""Latents one by one: what each stands for, its strongest words, and what clamping it does."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from analyses.questions.inside.dictionaries.measured import Made, Site, reads_of
from interp.dictionaries.dictionary import Dictionary, live
from interp.dictionaries.scores import Readers, best_f1, f1
from interp.model import activations

STRONGEST = 3
"""Words that are shown of a latent."""
SYMBOLS = 12
"""Symbols of a word that are shown at most before the position, and after it."""
CLAMPED = 100
"""Words in which a latent is clamped."""


def features(site: Site, made: Made) -> Iterator[dict[str, object]]:
    """The live latents of the first dictionary of a kind, those that are on most often first.

    Returns:
        One row per latent: kind, width, latent, on (the share of positions), fact (the one that it
        reads best), F1 (on positions that did not choose it), words (where its code is largest,
        with the position in brackets, and without what a causal model has not seen there), off (the
        share of verdicts that change if it is set to 0 everywhere, among the words in which it is
        on), up (the share that changes if it is set to its largest code everywhere).
    """
    one, truth = made.dictionaries[0], site.truth
    codes, new = one.encode(made.reads.fit), one.encode(made.reads.score)
    readers = Readers.of(codes, torch.as_tensor(truth.fit.facts))
    facts = torch.as_tensor(truth.score.facts)
    verdicts = _Verdicts(site, made)
    share = (new > 0).float().mean(dim=0)
    for latent in share.argsort(descending=True, stable=True).tolist():
        if not live(codes)[latent]:
            continue
        fact = int(readers.fits[:, latent].argmax())
        prediction = new[:, latent] > readers.thresholds[fact, latent]
        off, up = verdicts.clamped(one, latent, float(codes[:, latent].max()))
        yield {
            "kind": made.kind,
            "width": made.width,
            "latent": latent,
            "on": float(share[latent]),
            "fact": truth.names[fact],
            "F1": float(f1(prediction, facts[:, fact])),
            "words": ", ".join(_strongest(site, new[:, latent])),
            "off": off,
            "up": up,
        }


def told(site: Site, made: Made) -> Iterator[dict[str, object]]:
    """The latent that tells each fact best, in the first dictionary of a kind.

    Returns:
        One row per fact: kind, width, fact, latent (the one that tells it best where latents are
        chosen), F1 (on the other positions).
    """
    one, truth = made.dictionaries[0], site.truth
    facts, new_facts = (torch.as_tensor(half.facts) for half in (truth.fit, truth.score))
    readers = Readers.of(one.encode(made.reads.fit), facts)
    scores = best_f1(readers, one.encode(made.reads.score), new_facts)
    for fact, latent, score in zip(
        truth.names, readers.best.tolist(), scores.tolist(), strict=True
    ):
        row = {"kind": made.kind, "width": made.width, "fact": fact}
        yield {**row, "latent": latent, "F1": score}


def _strongest(site: Site, code: Float[Tensor, " n"]) -> Iterator[str]:
    """The words with the largest codes, each once."""
    half, words, names = site.truth.score, site.truth.words, site.model.vocabulary.tokens
    seen = set[str]()
    for row in code.argsort(descending=True, stable=True).tolist():
        if len(seen) == STRONGEST or code[row] <= 0:
            return
        word, pos = int(half.word[row]), int(half.pos[row])
        last = pos if site.model.config.causal else int(words.last[word])
        symbols = [names[i] for i in words.tokens[word, : last + 1].tolist()]
        symbols[pos] = f"[{symbols[pos]}]"
        start, end = max(min(pos, 1), pos - SYMBOLS), pos + SYMBOLS + 1
        shown = " ".join(symbols[start:end])
        if shown not in seen:
            seen.add(shown)
            yield shown


class _Verdicts:
    """The verdicts on some words, as they are and with a latent clamped.

    Args:
        made: the dictionaries whose latents are clamped.
    """

    def __init__(self, site: Site, made: Made) -> None:
        self.site, words = site, site.truth.words
        rows = torch.as_tensor(np.unique(site.truth.score.word)[:CLAMPED])
        self.tokens: Int[Tensor, "word pos"] = words.tokens[rows]
        self.mask: Bool[Tensor, "word pos"] = words.mask[rows]
        self.at = site.model.verdict_positions(words.last[rows])
        hook = site.hook if made.reads is site.seen else reads_of(site.hook)
        self.reads = activations(site.model, self.tokens, [hook])[hook]
        self.plain = self._said(torch.zeros(1))

    def _said(self, added: Float[Tensor, "*any"]) -> Bool[Tensor, " word"]:
        def add(x: Tensor, hook: object) -> Tensor:
            return x + added

        with torch.no_grad():
            logits = self.site.model.run_with_hooks(self.tokens, fwd_hooks=[(self.site.hook, add)])
        return self.site.model.margins(logits, self.tokens, self.at) > 0

    def clamped(self, one: Dictionary, latent: int, level: float) -> tuple[float, float]:
        """The share of verdicts that change without the latent, and with it everywhere."""
        code = one.encode(self.reads.flatten(0, 1))[:, latent].unflatten(0, self.mask.shape)
        code = code * self.mask
        on = (code > 0).any(dim=1)
        off = self._said(-code[..., None] * one.directions[latent]) != self.plain
        more = (level - code) * self.mask
        up = self._said(more[..., None] * one.directions[latent]) != self.plain
        return float(off[on].float().mean()), float(up.float().mean())
