"""Does attention rest on the symbols that decide?"""

from __future__ import annotations

import numpy as np
import torch

from analyses.words import ANALYSIS_SEED
from interp.explanations.scores import against_rationale, chance
from interp.model import activations, one_stream
from models.base import LanguageModel
from models.languages import Word
from models.runs.run import Run

WORDS = 100


def attention(run: Run) -> dict[str, float | None]:
    """The area under the ROC curve with which attention ranks the positions that decide.

    The attention is that of the place of the verdict in the last layer, mean over heads. Words are
    fresh ones of the training window, half of them members if lengths have both. Where several
    sets of positions decide, attention is held against the one that suits it best; chance too.

    Returns:
        members, others: the mean over words; None where by the rule every position of a word
            decides, or none.
        members_untrained, others_untrained: the same of the weights before training.
        members_chance, others_chance: the same of random values.
        Nothing for a model without attention, or with two sides.
    """
    model = run.model()
    hook = f"blocks.{run.config.model.n_layers - 1}.attn.hook_pattern"
    if hook not in model.hook_dict or not one_stream(model):
        return {}
    words = _words_of(run)
    numbers: dict[str, float | None] = {}
    for name, label in (("members", True), ("others", False)):
        group = [word for word, inside in words if inside is label]
        sets = [run.language.rationales(word) or () for word in group]
        for ending, of in (("", model), ("_untrained", run.untrained())):
            areas = [
                float(against_rationale(values[None], truth)["AUROC"][0])
                for values, truth in zip(_looks(of, hook, group), sets, strict=True)
            ]
            numbers[name + ending] = _mean(areas)
        areas = [chance(len(word), truth)["AUROC"] for word, truth in zip(group, sets, strict=True)]
        numbers[f"{name}_chance"] = _mean(areas)
    return numbers


def _words_of(run: Run) -> list[tuple[Word, bool]]:
    """Words with their membership; none of a language that has no test words."""
    language = run.language
    lengths = [length for length in language.lengths(run.config.max_n) if length > 1]
    lengths = language.positive_lengths(lengths) or lengths
    rng = np.random.default_rng([ANALYSIS_SEED, 0])
    try:
        sample = language.sample(rng, WORDS, lengths, split="test")
    except LookupError:
        return []
    words = language.vocabulary.decoded(sample.words)
    return list(zip(words, sample.labels.tolist(), strict=True))


def _looks(model: LanguageModel, hook: str, words: list[Word]) -> list[np.ndarray]:
    """The attention from the place of the verdict to each symbol, by word, mean over heads."""
    if not words:
        return []
    batch = model.vocabulary.words(words)
    lengths = torch.as_tensor(batch.lengths)
    pattern = activations(model, torch.as_tensor(batch.tokens), [hook])[hook].mean(dim=1)
    rows = pattern[torch.arange(len(words)), model.verdict_positions(lengths)].double().numpy()
    return [row[1 : n + 1] for row, n in zip(rows, batch.lengths, strict=True)]


def _mean(values: list[float]) -> float | None:
    """The mean over the words that have a value; None if none has."""
    numbers = [value for value in values if not np.isnan(value)]
    return float(np.mean(numbers)) if numbers else None
