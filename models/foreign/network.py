"""A language model that the lab did not make, asked for verdicts on words.

TransformerLens' ``TransformerBridge`` wraps it and gives it hooks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from models.languages import Word
from models.objectives import LEAST

BATCH_NUMBERS = 2**25
"""About so many logits are in memory at a time."""


@dataclass(frozen=True)
class Asked:
    """How a network is asked about words.

    Attributes:
        symbols: the alphabet; without any, all tokens that are not special, if they are few.
        begin: the token that every word begins with; by default the one that the folder names.
        end: the token after a word; by default the one that the folder names.
        least: a token whose probability is smaller may not come next.
    """

    symbols: tuple[str, ...] = ()
    begin: str | None = None
    end: str | None = None
    least: float = LEAST


@dataclass(frozen=True)
class Foreign:
    """A network that says whether a word over an alphabet is one of its own.

    A word is accepted if each of its symbols may come after those before it, and the end token
    after the last. "May" means a probability of ``least`` or more, of all tokens together. It is
    how the lab reads the verdicts of its own language models.

    Attributes:
        model: the ``TransformerBridge``; tokens [batch, pos] to logits [batch, pos, d_vocab].
        symbols: the alphabet.
        ids: the token of each symbol.
        begin, end: the tokens around a word: name and number.
        room: the symbols of the longest word that fits into the network's context.
        least: as in ``Asked``.
        device: where the network answers.
        config: of ``transformers``.
        digest: SHA-256 of the folder's files.
    """

    model: Any = field(repr=False)
    symbols: tuple[str, ...]
    ids: tuple[int, ...]
    begin: tuple[str, int]
    end: tuple[str, int]
    room: int
    least: float
    device: torch.device
    config: Any = field(repr=False)
    digest: str

    def __call__(self, words: Sequence[Word]) -> Bool[np.ndarray, " words"]:
        """The verdicts on words of any lengths; one that does not fit into the context is not
        accepted."""
        answers = np.zeros(len(words), dtype=bool)
        for rows, tokens, logits in self._read(words):
            end = torch.full_like(tokens[:, :1], self.end[1])
            following = torch.cat([tokens[:, 1:], end], dim=1)[..., None]
            likely = logits.log_softmax(dim=-1).take_along_dim(following, dim=-1)[..., 0]
            answers[rows] = (likely >= math.log(self.least)).all(dim=1).cpu().numpy()
        return answers

    def drawn(self, count: int, longest: int, seed: int) -> list[Word]:
        """Words that the network makes, symbol by symbol, each as likely as it says.

        Tokens other than the symbols and the end are left out. A word of ``longest`` symbols is cut
        there, whether the network would end it or not.
        """
        rng = np.random.default_rng([seed, 0xF0E])
        words: list[Word] = [()] * count
        growing = np.arange(count)
        for _ in range(min(longest, self.room)):
            kept = []
            for rows, _, logits in self._read([words[row] for row in growing]):
                choices = logits[:, -1, [self.end[1], *self.ids]].softmax(dim=-1).cpu().numpy()
                which = (choices.cumsum(axis=1) > rng.random((len(rows), 1))).argmax(axis=1)
                for row, choice in zip(growing[rows], which, strict=True):
                    if choice:
                        words[row] = (*words[row], self.symbols[choice - 1])
                        kept.append(row)
            growing = np.array(kept, dtype=int)
        return words

    def untaught(self, seed: int) -> Foreign:
        """The same network with the random weights that it would begin with."""
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = bridged(built(self.config).to(self.device))
        return replace(self, model=model)

    def _read(
        self, words: Sequence[Word]
    ) -> Iterator[
        tuple[
            Int[np.ndarray, " rows"],
            Int[Tensor, "rows pos"],
            Float[Tensor, "rows pos d_vocab"],
        ]
    ]:
        """Batches of words of one length: their rows, their tokens and their logits. Nothing is
        padded, so no network sees what is no part of a word."""
        number = dict(zip(self.symbols, self.ids, strict=True))
        lengths = np.array([len(word) for word in words], dtype=int)
        for length in np.unique(lengths[lengths <= self.room]).tolist():
            here = np.flatnonzero(lengths == length)
            most = max(1, BATCH_NUMBERS // ((length + 1) * self.config.vocab_size))
            for rows in np.array_split(here, -(-len(here) // most)):
                lines = [[self.begin[1], *(number[s] for s in words[row])] for row in rows]
                tokens = torch.tensor(lines, device=self.device)
                yield rows, tokens, self.model(tokens)


def built(config: Any) -> nn.Module:
    """A network with random weights."""
    from transformers import AutoModelForCausalLM

    how = {"attn_implementation": "eager", "dtype": torch.float32, "trust_remote_code": False}
    return AutoModelForCausalLM.from_config(config, **how)


def bridged(model: nn.Module) -> Any:
    """A network with TransformerLens' hooks, which learns no more."""
    from transformer_lens.model_bridge.sources import build_bridge_from_module

    bridge = build_bridge_from_module(model, type(model).__name__, hf_config=model.config)
    return bridge.eval().requires_grad_(False)
