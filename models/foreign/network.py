"""A language model that the lab did not make, asked for verdicts on words.

TransformerLens' ``TransformerBridge`` wraps it and gives it hooks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from models.errors import UserError
from models.languages import Word
from models.objectives import LEAST
from models.objectives.readout import Reads

BATCH_NUMBERS = 2**25
"""About so many logits are in memory at a time."""


@dataclass(frozen=True)
class Asked:
    """A way of asking a network about words.

    Attributes:
        symbols: the alphabet; without any, all tokens that are not special, if they are few.
        begin: the token that every word begins with; by default the one that the folder names.
        end: the token after a word; by default the one that the folder names.
        least: read as a softmax, a token whose probability is smaller may not come next.
        reads: how the logits are read; by default as the folder says, else as a trial of both.
        vocabulary: the names of all tokens in the order of their numbers, with spaces between
            them. They stand in for a tokenizer.
    """

    symbols: tuple[str, ...] = ()
    begin: str | None = None
    end: str | None = None
    least: float = LEAST
    reads: Reads | None = None
    vocabulary: str | None = None


@dataclass(frozen=True)
class Foreign:
    """A network that says whether a word over an alphabet is one of its own.

    A word is accepted if each of its symbols may come after those before it, and the end token
    after the last. Read as a softmax, "may" means a probability of ``least`` or more, of all tokens
    together. Read as sets, it means a logit above 0, each token for itself. The lab reads its own
    language models and its own predictors of sets so.

    Attributes:
        model: the ``TransformerBridge``; tokens [batch, pos] to logits [batch, pos, d_vocab].
        symbols: the alphabet.
        ids: the token of each symbol.
        begin, end: the tokens around a word: name and number.
        room: the symbols of the longest word that fits into the network's context.
        least: as in ``Asked``.
        reads: how the logits are read.
        device: the device that runs the network.
        config: the configuration of ``transformers``, or of TransformerLens' own network.
        digest: SHA-256 of the folder's files.
        trial: the result of a trial of both readings, where neither the folder nor ``Asked`` says
            how to read; else None.
    """

    model: Any = field(repr=False)
    symbols: tuple[str, ...]
    ids: tuple[int, ...]
    begin: tuple[str, int]
    end: tuple[str, int]
    room: int
    least: float
    reads: Reads
    device: torch.device
    config: Any = field(repr=False)
    digest: str
    trial: Mapping[str, float] | None = None

    def __call__(self, words: Sequence[Word]) -> Bool[np.ndarray, " words"]:
        """The verdicts on words of any lengths; one that does not fit into the context is not
        accepted."""
        answers = np.zeros(len(words), dtype=bool)
        for rows, tokens, logits in self._read(words):
            end = torch.full_like(tokens[:, :1], self.end[1])
            following = torch.cat([tokens[:, 1:], end], dim=1)[..., None]
            may = self._margins(logits).take_along_dim(following, dim=-1)[..., 0] > 0
            answers[rows] = may.all(dim=1).cpu().numpy()
        return answers

    def margins(self, words: Sequence[Word]) -> Float[np.ndarray, "prefixes tokens"]:
        """Margins of the end token and of every symbol above the threshold, after every prefix of
        the words, in nats. A token may come next if its margin is positive."""
        tokens = [self.end[1], *self.ids]
        batches = (self._margins(z)[..., tokens].flatten(0, 1) for *_, z in self._read(words))
        return torch.cat([*batches]).cpu().numpy()

    def drawn(self, count: int, longest: int, seed: int) -> list[Word]:
        """Words that the network makes, symbol by symbol, each as likely as it says; read as sets,
        evenly among those that may come.

        Tokens other than the symbols and the end are left out. A word is cut at ``longest``
        symbols, and where nothing may come, whether the network would end it or not.
        """
        rng = np.random.default_rng([seed, 0xF0E])
        words: list[Word] = [()] * count
        growing = np.arange(count)
        for _ in range(min(longest, self.room)):
            rest = []
            for rows, _, logits in self._read([words[row] for row in growing]):
                choices = self._chances(logits[:, -1, [self.end[1], *self.ids]]).cpu().numpy()
                which = (choices.cumsum(axis=1) > rng.random((len(rows), 1))).argmax(axis=1)
                for row, choice in zip(growing[rows], which, strict=True):
                    if choice:
                        words[row] = (*words[row], self.symbols[choice - 1])
                        rest.append(row)
            growing = np.array(rest, dtype=int)
        return words

    def untaught(self, seed: int) -> Foreign:
        """The same network with the random weights that it would begin with."""
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = bridged(built(self.config).to(self.device))
        return replace(self, model=model)

    def _margins(self, logits: Float[Tensor, "*batch d_vocab"]) -> Float[Tensor, "*batch d_vocab"]:
        if self.reads == "sets":
            return logits
        return logits.log_softmax(dim=-1) - math.log(self.least)

    def _chances(self, logits: Float[Tensor, "rows tokens"]) -> Float[Tensor, "rows tokens"]:
        """The chance of each token to be drawn; all are 0 where none may come."""
        if self.reads == "softmax":
            return logits.softmax(dim=-1)
        may = (logits > 0).float()
        return may / may.sum(dim=-1, keepdim=True).clamp(min=1)

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
        padded, so no network sees what is no part of a word. Raises UserError for logits that are
        no numbers."""
        number = dict(zip(self.symbols, self.ids, strict=True))
        lengths = np.array([len(word) for word in words], dtype=int)
        for length in np.unique(lengths[lengths <= self.room]).tolist():
            group = np.flatnonzero(lengths == length)
            most = max(1, BATCH_NUMBERS // ((length + 1) * self.config.vocab_size))
            for rows in np.array_split(group, -(-len(group) // most)):
                lines = [[self.begin[1], *(number[s] for s in words[row])] for row in rows]
                tokens = torch.tensor(lines, device=self.device)
                logits = self.model(tokens)
                if not logits.isfinite().all():
                    raise UserError(
                        f"the network answers with no numbers to words of {length} symbols: its "
                        "weights are damaged, save it anew"
                    )
                yield rows, tokens, logits


def built(config: Any) -> nn.Module:
    """A network with random weights."""
    from transformer_lens import TransformerBridgeConfig
    from transformer_lens.model_bridge.sources.native import NativeModel, initialize_native_model
    from transformers import AutoModelForCausalLM

    if isinstance(config, TransformerBridgeConfig):
        model = NativeModel(config)
        initialize_native_model(model, config)
        return model
    options = {"attn_implementation": "eager", "dtype": torch.float32, "trust_remote_code": False}
    return AutoModelForCausalLM.from_config(config, **options)


def bridged(model: nn.Module) -> Any:
    """A network with TransformerLens' hooks, which learns no more."""
    from transformer_lens.model_bridge.sources import build_bridge_from_module
    from transformer_lens.model_bridge.sources.native import NativeModel

    if isinstance(model, NativeModel):
        bridge = build_bridge_from_module(model, "TransformerLensNative", tl_config=model.cfg)
    else:
        bridge = build_bridge_from_module(model, type(model).__name__, hf_config=model.config)
    return bridge.eval().requires_grad_(False)
