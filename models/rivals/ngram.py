"""An n-gram model: it counts what followed the last tokens, and knows nothing else."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding, one_hot, pad
from transformer_lens.config import TransformerBridgeConfig
from transformer_lens.hook_points import HookPoint

from models.base import LanguageModel
from models.errors import UserError
from models.hooks import HookRow, listened
from models.languages import BOS_ID, Vocabulary
from models.model_config import ModelConfig
from models.objectives import LEAST

LARGEST_TABLE = 2**25  # counts of the longest context
SMOOTHING = 1.0


class _Window(nn.Module):
    """The last tokens before and at every position, the oldest first: all that the model remembers.

    Hook: ``hook_resid_pre`` [batch, pos, (order - 1) * d_vocab], these tokens in one-hot form (for
    order 1 a constant 0). If a hook changes it, the token with the largest number in each slot is
    read.
    """

    def __init__(self, length: int, d_vocab: int) -> None:
        super().__init__()
        self.length, self.d_vocab = length, d_vocab
        self.hook_resid_pre = HookPoint()

    def forward(self, tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch pos window"]:
        if self.length == 0:
            if listened(self.hook_resid_pre):
                self.hook_resid_pre(torch.zeros(*tokens.shape, 1, device=tokens.device))
            return tokens[..., None][..., :0]
        window = pad(tokens, (self.length - 1, 0), value=BOS_ID).unfold(1, self.length, 1)
        if listened(self.hook_resid_pre):
            hot = one_hot(window, self.d_vocab).float()
            hot = self.hook_resid_pre(hot.flatten(2)).view(hot.shape)
            window = hot.argmax(dim=-1)
        return window


class HookedNGram(LanguageModel):
    """The share of times that a token was allowed after a context, smoothed by shorter contexts:

        p_k = (allowed_k + p_{k-1}) / (seen_k + 1),  p_{-1} = 1/2,  k = 0 .. order - 1 tokens

    so that an unseen context gives the answer of the next shorter one. It is trained by counting.
    As a language model it counts which token came next: seen_k is then the same for all tokens, and
    p_{-1} is 1 / d_vocab.
    """

    learns_by_counting = True

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary, seed: int = 0) -> None:
        """Nothing is drawn from ``seed``. Raises UserError if the table would be too large."""
        super().__init__(config, vocabulary)
        d_vocab = len(vocabulary)
        if d_vocab**config.order > LARGEST_TABLE:
            raise UserError(
                f"an n-gram of order {config.order} over {d_vocab} tokens needs "
                f"{d_vocab**config.order:,} counts: choose a smaller --model.order"
            )
        self.blocks = nn.ModuleList([_Window(config.order - 1, d_vocab)])
        for k in range(config.order):
            for name in ("allowed", "seen"):  # in float32, counting would stop at 2^24
                counts = torch.zeros(d_vocab**k, d_vocab, dtype=torch.float64)
                self.register_buffer(f"{name}_{k}", counts)
        self._table: Tensor | None = None  # all logits, once the model no longer counts
        self.setup()  # type: ignore[no-untyped-call]  # untyped in TransformerLens

    @property
    def device(self) -> torch.device:
        return self.get_buffer("seen_0").device

    @property
    def cfg(self) -> TransformerBridgeConfig:
        config = super().cfg
        width = (self.config.order - 1) * len(self.vocabulary)
        config.n_layers, config.d_model = 1, max(1, width)
        return config

    def _contexts(self, tokens: Int[Tensor, "batch pos"]) -> list[Int[Tensor, "batch pos"]]:
        """The row of every position in the table of each context length."""
        window, base = self.blocks[0](tokens), len(self.vocabulary)
        rows = [torch.zeros_like(tokens), *window[..., -1:].unbind(-1)]
        for k in range(2, self.config.order):
            rows.append(torch.add(rows[-1], window[..., -k], alpha=base ** (k - 1)))
        return rows

    def logits(
        self, tokens: Int[Tensor, "batch pos"], offsets: Int[Tensor, " batch"] | None
    ) -> Float[Tensor, "batch pos d_vocab"]:
        rows = self._contexts(tokens)
        if not self.training:
            if self._table is None or self._table.device != self.device:
                self._table = self._all_contexts()
            return embedding(rows[-1], self._table)
        p = self._at_first()
        for k, row in enumerate(rows):
            p = self._counted(k, row, p)
        return self._said(p)

    def _all_contexts(self) -> Float[Tensor, "context d_vocab"]:
        """The logits after every longest context.

        The number of a row, to the base d_vocab, has the newest token as its lowest digit. So the
        rows of a shorter context repeat.
        """
        p = self._at_first()[None]
        for k in range(self.config.order):
            shorter = p if k == 0 else p.repeat(len(self.vocabulary), 1)
            p = self._counted(k, slice(None), shorter)
        return self._said(p)

    def _at_first(self) -> Float[Tensor, " d_vocab"]:
        even = 1 / len(self.vocabulary) if self.softmax else 0.5
        return torch.full_like(self.get_buffer("seen_0")[0], even)

    def _counted(self, k: int, rows: Tensor | slice, shorter: Tensor) -> Tensor:
        """The probabilities after contexts of k tokens, from those after shorter ones."""
        allowed, seen = self.get_buffer(f"allowed_{k}")[rows], self.get_buffer(f"seen_{k}")[rows]
        if self.softmax:
            seen = seen.sum(dim=-1, keepdim=True)
        return (allowed + SMOOTHING * shorter) / (seen + SMOOTHING)

    def _said(self, p: Tensor) -> Tensor:
        logits = (p / LEAST).log() if self.softmax else torch.logit(p, eps=1e-6)
        return logits.float()

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Loads weights as PyTorch does; the table of logits is made anew."""
        self._table = None
        return super().load_state_dict(*args, **kwargs)

    @torch.no_grad()
    def count(
        self,
        tokens: Int[Tensor, "batch pos"],
        target: Float[Tensor, "batch pos d_vocab"],
        weight: Float[Tensor, "batch pos d_vocab"],
    ) -> None:
        """Learns a batch.

        Args:
            target: 1 where a token may come next, else 0.
            weight: how often each of these answers is counted.
        """
        self._table = None
        for k, row in enumerate(self._contexts(tokens)):
            rows = row.flatten()
            self.get_buffer(f"allowed_{k}").index_add_(
                0, rows, (target * weight).flatten(0, 1).double()
            )
            self.get_buffer(f"seen_{k}").index_add_(0, rows, weight.flatten(0, 1).double())


def hook_rows(config: ModelConfig) -> list[HookRow]:
    """The one hook of an n-gram model."""
    return [
        HookRow(
            "blocks.0.hook_resid_pre",
            ("batch", "pos", "window"),
            "the last order - 1 tokens in one-hot form: all that it remembers",
        )
    ]
