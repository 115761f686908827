"""The loss above the least that there can be, and the cost of the training."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float

from analyses.questions.training.held_out import HeldOut
from models.languages import FormalLanguage
from models.runs.run import Run
from models.training.trained_words import TrainedWords

WORDS = 1024
OPERATIONS = 6
"""Floating-point operations of training a weight on a token: two ahead, four back (Kaplan et al.
2020, "Scaling Laws for Neural Language Models")."""


def shares_of(run: Run, language: FormalLanguage) -> Float[np.ndarray, " longest_plus_1"]:
    """The probability that a training word of the language has each length."""
    return language.length_shares(language.lengths(run.config.max_n), run.config.spread)


def entropy_and_kl(
    truth: Float[np.ndarray, "*any d_vocab"], logprobs: Float[np.ndarray, "*any d_vocab"]
) -> tuple[Float[np.ndarray, "*any"], Float[np.ndarray, "*any"]]:
    """The entropy of the truth and KL(truth || model) at each position, in nats.

    Args:
        truth: probabilities.
        logprobs: log-probabilities; -inf where the model says that a token cannot come.
    """
    entropy = -(truth * np.log(np.where(truth > 0, truth, 1.0))).sum(axis=-1)
    # Where the truth forbids what the model must not say at all, 0 times infinity is 0.
    surprise = np.where(truth > 0, -logprobs, 0.0)
    return entropy, (truth * surprise).sum(axis=-1) - entropy


@torch.no_grad()
def loss(run: Run) -> dict[str, float | None]:
    """The loss on fresh words of the training window, and the size of the training.

    Returns:
        nats: the loss per answer, of a language model per token; there the expected loss at each
            position, if it is known how likely the language draws each word.
        entropy: the least that this can be; None where it is not known.
        excess: nats less entropy.
        words: different words that training drew.
        compute: floating-point operations of training, 6 x parameters x tokens.
    """
    held, model = HeldOut.of(run, WORDS), run.model()
    logits = model(held.batch.tokens)
    truth = _truth_of(run, held)
    entropy = excess = None
    if truth is None:
        nats = float(held.loss(logits))
    else:
        logprobs = logits.double().log_softmax(dim=-1).numpy()
        inside = held.inside.numpy()
        entropy, excess = (float(x[inside].mean()) for x in entropy_and_kl(truth, logprobs))
        nats = entropy + excess
    drawn = TrainedWords(run.config, run.language, run.step)
    parameters = sum(tensor.numel() for tensor in model.state_dict().values())
    compute = float(OPERATIONS * parameters * drawn.tokens)
    return {"nats": nats, "entropy": entropy, "excess": excess} | {
        "words": len(drawn),
        "compute": compute,
    }


def _truth_of(run: Run, held: HeldOut) -> Float[np.ndarray, "batch pos d_vocab"] | None:
    """The probability that each token comes next in training words; None where it is not known, or
    where something else is taught."""
    language = run.language
    if run.config.objective != "language-model" or not isinstance(language, FormalLanguage):
        return None
    return language.next_probabilities(held.words, shares_of(run, language))
