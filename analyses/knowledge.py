"""Does a network know its language at all? Its own answers beside the best constant ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import torch
from jaxtyping import Float

from analyses.claims import Knowledge
from interp.statistics import bootstrap_mean, weighted_sum, wilson
from models.base import LanguageModel
from models.languages import Language, Sample
from models.objectives.base import Objective
from models.training.evaluation import balanced_words, right_words

PER_LENGTH = 20
"""Words of each length, at most."""
MOST_LENGTHS = 25
KNOWLEDGE_SEED = 0x10D  # gives these words a random stream apart from those of other tests


def knowledge(
    model: LanguageModel, language: Language, objective: Objective, lengths: Sequence[int]
) -> Knowledge:
    """Asks a model about different words of these lengths, as ``balanced_words`` draws them.

    A model that gives verdicts is asked for them; its interval is Wilson's for members and for
    others, put together as Newcombe does (1998, method 10). Any other model, and one of whose
    language every word is a member, is asked for what it was taught at each place: there the
    constant answer is the commonest one, and the interval is a bootstrap over words of how far the
    model is ahead of it.
    """
    some = np.unique(np.linspace(0, len(lengths) - 1, MOST_LENGTHS).round().astype(int))
    drawn = _of_lengths(language, [lengths[at] for at in some])
    # The few test lines of a corpus may all be of other lengths.
    sample = reduce(Sample.concatenate, drawn or _of_lengths(language, lengths))
    once = np.unique(sample.words.ids, axis=0, return_index=True)[1]
    sample = sample[once]
    if objective.hides or objective.tags or sample.labels.all() or not sample.labels.any():
        return _of_places(model, language, objective, sample)
    _, right = right_words(model, language, sample, objective)
    halves = [right[sample.labels], right[~sample.labels]]
    shares = [(float(half.mean()), *wilson(int(half.sum()), len(half))) for half in halves]
    return Knowledge("verdicts", *weighted_sum(*((0.5, share) for share in shares)), 0.5, len(once))


def _of_lengths(language: Language, lengths: Sequence[int]) -> list[Sample]:
    drawn = (balanced_words(language, length, PER_LENGTH, KNOWLEDGE_SEED) for length in lengths)
    return [words for words in drawn if words is not None]


@torch.no_grad()
def _of_places(
    model: LanguageModel, language: Language, objective: Objective, sample: Sample
) -> Knowledge:
    """The knowledge of what is allowed at each place that the teacher speaks of, word by word."""
    words = sample.words[sample.labels] if sample.labels.any() else sample.words
    # Nobody knows what else may stand in a line: the first guess is asked for.
    teach = objective.truth if language.knows_others else objective.batch
    truth = teach(language, words, model.config.readout, model.device)
    places = (truth.weight > 0).any(dim=2).cpu().numpy()
    true = ((truth.target > 0) & (truth.weight > 0)).cpu().numpy()
    logits = model(truth.tokens)
    answers = objective.allowed(logits) & (truth.weight > 0)
    if not language.knows_others:
        answers = logits == logits.amax(dim=2, keepdim=True)
    allowed = answers.cpu().numpy()
    kinds, counts = np.unique(true[places], axis=0, return_counts=True)
    constant = (true == kinds[counts.argmax()]).all(axis=2)
    shares = [_by_word((true == allowed).all(axis=2), places), _by_word(constant, places)]
    _, *ends = bootstrap_mean(shares[0] - shares[1])
    right, best = (float(share.mean()) for share in shares)
    low, high = (float(np.clip(best + end, 0, 1)) for end in ends)
    known = np.isfinite(low)
    asks = objective.asks if language.knows_others else "is likeliest"
    return Knowledge(
        f'answers to "{asks}" at a place',
        right,
        low if known else None,
        high if known else None,
        best,
        int(places.any(axis=1).sum()),
    )


def _by_word(right: np.ndarray, places: np.ndarray) -> Float[np.ndarray, " word"]:
    """The share of the places asked about that is right, of each word with such a place."""
    counts = places.sum(axis=1)
    some = counts > 0
    return np.asarray((right & places).sum(axis=1)[some] / counts[some], dtype=float)
