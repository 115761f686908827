"""The base of every model: its vocabulary, the seed of its weights, and the hook interface."""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad
from transformer_lens import ActivationCache, HookedRootModule
from transformer_lens.config import TransformerBridgeConfig

from models.cards import card
from models.choices import ABSOLUTE
from models.errors import UserError
from models.languages import FIRST_SYMBOL_ID, Vocabulary
from models.model_config import ModelConfig
from models.objectives import LEAST, read_at, reading
from models.objectives.base import Objective, Outcome

SIZES = ("n_layers", "n_heads", "d_model", "d_mlp", "kernel_size", "order")
"""The fields of ``ModelConfig`` that a model names as its sizes, as far as its family has them."""


class LanguageModel(HookedRootModule):
    """A model that turns tokens into logits, with hooks.

    Any tool that works on TransformerLens' hook interface works on it. ``logits[:, t, token]`` > 0
    says that the token may come after position t. ``margins`` > 0 says that the word is in the
    language.

    Keep float32. bfloat16 and half round the sums that count by more than one symbol: heads that
    count refuse them, and no option chooses the precision.

    Attributes:
        config: our own frozen configuration.
        vocabulary: input and output tokens.
    """

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.config, self.vocabulary = config, vocabulary

    learns_by_counting = False
    """Whether ``count`` teaches the model, instead of a gradient."""

    @abstractmethod
    def logits(
        self, tokens: Int[Tensor, "batch pos"], offsets: Int[Tensor, " batch"] | None
    ) -> Float[Tensor, "batch pos d_vocab"]:
        """The forward pass of the architecture: logits at every position."""

    def forward(
        self,
        tokens: Int[Tensor, "batch pos"] | str | Sequence[str],
        offsets: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, "batch pos d_vocab"]:
        """Logits at every position, as the model's objective reads them (``Objective.read``).

        Args:
            tokens: token ids that begin with BOS, padded at the right with END; or text for
                ``to_tokens``.
            offsets: the number of each word's first absolute position, best on the CPU, where they
                can be checked without waiting for the device; None means 0 for every word.
        """
        ids = tokens if isinstance(tokens, Tensor) else self.to_tokens(tokens)
        return self.reading.read(ids, self.vocabulary, partial(self.logits, offsets=offsets))

    def verdict_positions(self, lengths: Int[Tensor, " batch"]) -> Int[Tensor, " batch"]:
        """The position at which the verdict on each word is read; BOS is position 0.

        ``config.readout`` says which one: BOS, or the last symbol.

        Args:
            lengths: symbols of each word, without BOS.
        """
        return read_at(self.config.readout, lengths)

    @property
    def reading(self) -> Objective:
        """The objective that says how the logits are read."""
        return reading(self.config.output)

    @property
    def softmax(self) -> bool:
        """True if the output is one distribution over all tokens, not a verdict on each alone."""
        return self.config.output != "sigmoid"

    def margins(
        self,
        logits: Float[Tensor, "*batch pos d_vocab"],
        tokens: Int[Tensor, "*batch pos"],
        at: Int[Tensor, "*#batch"],
    ) -> Float[Tensor, "*batch"]:
        """The verdict on each word as a logit: above 0 accepts (``Objective.margins``).

        Args:
            tokens: the words, BOS first.
            at: ``verdict_positions``.
        """
        return self.reading.margins(Outcome(logits, tokens, at, self.vocabulary))

    def normaliser(self, raw: Float[Tensor, "*any d_vocab"]) -> Float[Tensor, "*any 1"]:
        """The term that all logits x W_U + b_U get alike: 0 unless the output is a softmax.

        It makes each logit log(p / ``LEAST``). Other tools read the same distribution from them,
        since a softmax does not see what is added to all.
        """
        return _normaliser(raw) if self.softmax else torch.zeros_like(raw[..., :1])

    @torch.no_grad()
    def prefix_logits(
        self, tokens: Int[Tensor, "words pos"]
    ) -> list[tuple[Int[Tensor, " prefixes"], Float[Tensor, "prefixes d_vocab"]]]:
        """Position by position, the logits of every distinct prefix, each given once.

        A Transformer also computes each only once. In a model that sees ahead, what stands at a
        prefix depends on the whole word: the first word that begins with it.

        Args:
            tokens: words of one length in lexicographic order, BOS first.

        Returns:
            For each position the first word of every prefix that ends there, and its logits there.
        """
        logits, begins = self(tokens), torch.zeros_like(tokens[:, 0], dtype=torch.bool)
        begins[:1] = True
        prefixes = []
        for t in range(tokens.shape[1]):
            begins[1:] |= tokens[1:, t] != tokens[:-1, t]
            rows = begins.nonzero()[:, 0]
            prefixes.append((rows, logits[rows, t]))
        return prefixes

    def count(
        self,
        tokens: Int[Tensor, "batch pos"],
        target: Float[Tensor, "batch pos d_vocab"],
        weight: Float[Tensor, "batch pos d_vocab"],
    ) -> None:
        """Learns a batch, if the model learns by counting.

        Args:
            target: 1 where a token may come next, else 0.
            weight: how often each of these answers is counted.

        Raises:
            NotImplementedError: the model learns by gradient.
        """
        raise NotImplementedError(f"{type(self).__name__} learns by gradient")

    @torch.no_grad()
    def constrain(self) -> None:
        """Restores what the configuration demands of the weights; called after every step."""

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Refused: a model that is compiled in place ignores hooks, and its cache is empty.

        Raises:
            UserError: always.
        """
        raise UserError(
            "a model that is compiled in place ignores hooks: keep the model, and call "
            "torch.compile(model) where speed counts"
        )

    def remove_all_hook_fns(
        self,
        direction: Literal["fwd", "bwd", "both"] = "both",
        including_permanent: bool = False,
        level: int | None = None,
    ) -> None:
        """Removes hooks as in TransformerLens; hook points without hooks are passed over."""
        for point in self.hook_dict.values():
            if point.fwd_hooks or point.bwd_hooks:
                point.remove_hooks(direction, including_permanent, level)

    def run_with_cache(
        self, *args: Any, return_cache_object: bool = True, **kwargs: Any
    ) -> tuple[Tensor, ActivationCache | dict[str, Tensor]]:
        """Runs as in TransformerLens: (logits, ActivationCache); a plain dict on request."""
        out, cache = super().run_with_cache(*args, **kwargs)
        if not return_cache_object:
            return out, cache
        return out, ActivationCache(cache, self, not kwargs.get("remove_batch_dim", False))

    def _repr_html_(self) -> str:
        """The HTML card that a notebook shows."""
        return card(type(self).__name__, self.about())

    def about(self) -> dict[str, object]:
        """The kind of model, its sizes, how many numbers it learns, and its symbols."""
        config = self.config
        sizes = {name: getattr(config, name) for name in SIZES if name in config.family.reads}
        if config.mlp == "none":
            sizes.pop("d_mlp", None)
        learned = sum(tensor.numel() for tensor in self.state_dict().values())
        return {
            "kind": config.kind or "decoder",
            **sizes,
            "parameters": f"{learned:,}",
            "symbols": " ".join(self.vocabulary.symbols),
        }

    # -- the vocabulary -------------------------------------------------------------------------

    def to_tokens(
        self, text: str | Sequence[str] | Tensor, prepend_bos: bool = True
    ) -> Int[Tensor, "batch pos"]:
        """A word, or several of one length, as token ids. Raises UserError for unknown symbols."""
        if isinstance(text, Tensor):
            return text
        words = [self.vocabulary.parse(t) for t in ([text] if isinstance(text, str) else text)]
        if len({len(word) for word in words}) > 1:
            raise UserError("words of one batch must have the same length")
        batch = self.vocabulary.words(words)
        ids = batch.tokens if prepend_bos else batch.ids
        return torch.as_tensor(ids, device=self.device)

    def to_single_token(self, token: str) -> int:
        """The id of one token, BOS and END included."""
        if token not in self.vocabulary.ids:
            raise UserError(
                f"unknown token {token!r}: use one of {' '.join(self.vocabulary.tokens)}"
            )
        return self.vocabulary.ids[token]

    def to_str_tokens(self, text: str | Tensor, prepend_bos: bool = True) -> list[str]:
        """The tokens of a word as strings, one for each position."""
        ids = self.to_tokens(text, prepend_bos).reshape(-1)
        return list(self.vocabulary.decode(ids.tolist()))

    # -- what TransformerLens' tools read ---------------------------------------------------------

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """The device that holds the weights."""

    @property
    def cfg(self) -> TransformerBridgeConfig:
        """The shape for TransformerLens' tools; a model without attention reports one head."""
        config = self.config
        attends = config.family.attends
        kinds = {"none": "none", **dict.fromkeys(ABSOLUTE, "standard")}
        kinds |= {"rotary": "rotary", "alibi": "alibi", "t5": "relative_positional_bias"}
        return TransformerBridgeConfig(
            d_model=config.d_model,
            d_head=config.d_head if attends else config.d_model,
            n_heads=config.n_heads if attends else 1,
            n_layers=config.n_layers,
            n_ctx=config.n_ctx,
            d_mlp=config.d_mlp,
            d_vocab=len(self.vocabulary),
            d_vocab_out=len(self.vocabulary),
            act_fn=config.act_fn,
            eps=config.eps,
            normalization_type={"layer": "LN", "rms": "RMS", "none": None}[config.norm],
            positional_embedding_type=kinds[config.positions],
            rotary_base=config.position_base,
            attention_dir="causal" if config.causal else "bidirectional",
            attn_only=config.mlp == "none",
            gated_mlp=config.mlp == "gated",
            parallel_attn_mlp=config.parallel,
            use_normalization_before_and_after=config.norm_placement == "sandwich",
            device=str(self.device),
            dtype=torch.get_default_dtype(),
            default_prepend_bos=True,
            use_attn_result=True,
        )


def build(config: ModelConfig, vocabulary: Vocabulary, seed: int = 0) -> LanguageModel:
    """Builds the model of a configuration; its weights are drawn from ``seed`` alone.

    Raises:
        UserError: it would not fit into the memory of this machine.
    """
    demand = BYTES_OF_A_WEIGHT * (config.size + 2 * config.d_model * len(vocabulary))
    if demand > (capacity := memory()):
        raise UserError(
            f"a model of these sizes takes about {demand / 2**30:.1f} GiB to train, and this "
            f"machine has {capacity / 2**30:.1f}: choose a smaller d_model, d_mlp or n_layers"
        )
    model: LanguageModel = config.family.model(config, vocabulary, seed)
    model.constrain()
    return model


BYTES_OF_A_WEIGHT = 16
"""The bytes of a weight in training: itself, its gradient, and Adam's two moments."""


def all_finite(model: nn.Module) -> bool:
    """Is no weight infinite or NaN? Fused attention can hide one that an analysis then meets."""
    return all(bool(weight.isfinite().all()) for weight in model.parameters())


def memory() -> float:
    """The bytes of memory of this machine; infinite where the system does not tell."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):  # Windows
        return math.inf


class EmbeddingModel(LanguageModel):
    """A model that begins with an embedding and ends with an unembedding, learned by gradient."""

    embed: nn.Embedding
    unembed: Unembed

    @property
    def device(self) -> torch.device:
        return self.embed.weight.device

    @property
    def W_E(self) -> Float[Tensor, "d_vocab d_model"]:
        return self._filled(self.embed.weight)

    def embedded(self, tokens: Int[Tensor, "*any"]) -> Float[Tensor, "*any d_model"]:
        """The rows of W_E of these tokens."""
        return self._filled(self.embed(tokens))

    def _filled(self, embeddings: Float[Tensor, "*any d_embed"]) -> Float[Tensor, "*any d_model"]:
        """The embeddings, with zeros where positions stand."""
        missing = self.config.d_model - self.config.d_embed
        return pad(embeddings, (0, missing)) if missing else embeddings

    @torch.no_grad()
    def constrain(self) -> None:
        if self.config.counting.centred:
            centre(self.embed.weight)

    @property
    def W_U(self) -> Float[Tensor, "d_model d_vocab"]:
        return self.unembed.linear.weight.T

    @property
    def b_U(self) -> Float[Tensor, " d_vocab"]:
        return self.unembed.linear.bias

    def tokens_to_residual_directions(self, tokens: Tensor | int | str) -> Tensor:
        """The column of W_U of each token: shape [..., d_model], or [d_model] for one token."""
        if isinstance(tokens, str):
            tokens = self.to_single_token(tokens)
        ids = torch.as_tensor(tokens, device=self.device)
        return self.W_U.T[ids.reshape(()) if ids.numel() == 1 else ids]


class Unembed(nn.Module):
    """Residual stream to logits: x W_U + b_U; for a softmax, plus the ``_normaliser`` of this."""

    def __init__(self, config: ModelConfig, d_vocab: int) -> None:
        super().__init__()
        self.output = config.output
        self.linear = nn.Linear(config.d_model, d_vocab)

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_vocab"]:
        raw: Tensor = self.linear(x)
        return raw if self.output == "sigmoid" else raw + _normaliser(raw)


def _normaliser(raw: Float[Tensor, "*any d_vocab"]) -> Float[Tensor, "*any 1"]:
    """The term that turns numbers whose softmax is p into log(p / ``LEAST``)."""
    return -raw.logsumexp(dim=-1, keepdim=True) - math.log(LEAST)


def centre(embeddings: Float[Tensor, "*model d_vocab d_model"]) -> None:
    """Subtracts the mean of all symbols' embeddings from each of them, in place.

    The embeddings of BOS and END stay as they are.
    """
    symbols = embeddings[..., FIRST_SYMBOL_ID:, :]
    symbols -= symbols.mean(dim=-2, keepdim=True)


def start_of(config: ModelConfig) -> float:
    """The standard deviation of a Transformer's embeddings before training.

    Sines are of the order of 1: smaller embeddings would drown in them.
    """
    sines = config.positions in ("sinusoidal", "concatenated")
    return 0.02 if config.even_start and not sines else 1.0


def initialise(
    model: nn.Module,
    generator: torch.Generator,
    embedding_std: float = 0.02,
    even_start: bool = True,
) -> None:
    """Draws all weights of a model, in place.

    Linear and convolution weights are uniform in +-1/sqrt(fan_in), biases are zero, embeddings are
    normal, and all weights of an RNN, LSTM or GRU are uniform in +-1/sqrt(width). With
    ``even_start`` queries and keys start ten times smaller: attention then begins near a uniform
    average. Counting is learned easily from there. The embeddings start small, too: this average
    then fills the residual stream, and not the last symbol.
    """
    for name, module in model.named_modules():
        if isinstance(module, (nn.Linear, nn.Conv1d)):
            bound = module.weight[0].numel() ** -0.5
            bound *= 0.1 if even_start and name.endswith(("attn.q", "attn.k")) else 1.0
            nn.init.uniform_(module.weight, -bound, bound, generator=generator)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=embedding_std, generator=generator)
        elif isinstance(module, nn.RNNBase):
            for weight in module.parameters():
                bound = module.hidden_size**-0.5
                nn.init.uniform_(weight, -bound, bound, generator=generator)
