"""The paper of a lens beside a network: words, and the question about them. It holds no truth."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from pydantic import TypeAdapter
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn.functional import logsigmoid
from torch.nn.utils import vector_to_parameters

from interp.causal.metrics import ReadAt, logit_at
from interp.model import HookedModel
from models.languages.vocabulary import Vocabulary
from models.model_config import ModelConfig
from models.runs.files import as_json
from models.transformer.model import HookedTransformer

Question = Literal["positions", "parts", "edges", "variable", "rule", "lines"]
QUESTIONS: tuple[Question, ...] = get_args(Question)
OF_PLANTS = QUESTIONS[:-1]
"""The questions about planted networks. "lines" is asked about trained ones."""
ASKS: Mapping[Question, str] = {
    "positions": "Which symbols of a word decide its verdict?",
    "parts": "Which heads and MLPs does the verdict come through?",
    "edges": "Through which edges?",
    "variable": "In which layer and along which directions does a variable live?",
    "rule": "Which words are accepted?",
    "lines": "Which training lines made the verdicts so?",
}
ALL = slice(None)
TENSORS, ABOUT, NETWORK = "words.safetensors", "paper.json", "network.safetensors"


@dataclass(frozen=True, kw_only=True)
class Words:
    """The words and facts that a lens gets with every question.

    Attributes:
        tokens: token ids with BOS; all words have one length, but those of "lines", which are
            padded with END.
        token: the id of the token whose logit is the verdict: above zero says yes.
        at: the position where this logit is read; BOS is position 0. For "lines" it is the last
            symbol of each word.
        symbols: the symbols of the words; the first has the id 2, after BOS and END.
        longest: the most symbols of a word of the language.
        seed: seed for a lens that draws.
    """

    tokens: Int[Tensor, "word pos"]
    token: int
    at: int
    symbols: tuple[str, ...]
    longest: int
    seed: int = 0

    @property
    def metric(self) -> ReadAt:
        """A map from logits to the verdict, one number per word."""
        return logit_at(self.token, self.at)

    @torch.no_grad()
    def verdicts(self, model: HookedModel, tokens: Int[Tensor, "any pos"]) -> Float[Tensor, " any"]:
        """The network's verdict on each word, which may have any length: above zero says yes."""
        at = self.at and tokens.shape[1] - 1
        return model(tokens)[:, at, self.token]

    def scores(self, model: HookedModel) -> Callable[[np.ndarray], np.ndarray]:
        """The model's verdict on words of one length without BOS, as a score of a ``Game``."""

        def score(batch: np.ndarray) -> np.ndarray:
            bos = self.tokens[:1, :1].expand(len(batch), 1)
            tokens = torch.cat([bos, torch.as_tensor(batch)], dim=1)
            return self.verdicts(model, tokens).double().numpy()

        return score

    def write(self, folder: Path, question: Question) -> None:
        """Puts it into a folder, for another process."""
        tensors = {k: v.contiguous() for k, v in vars(self).items() if isinstance(v, Tensor)}
        save_file(tensors, folder / TENSORS)
        about = {k: v for k, v in vars(self).items() if k not in tensors}
        (folder / ABOUT).write_bytes(as_json(about | {"question": question}))


@dataclass(frozen=True, kw_only=True)
class PartWords(Words):
    """The words of "parts" and "edges".

    Attributes:
        counterfactuals: row i has the other verdict than row i of ``tokens``, and differs from it
            in few symbols.
        parts: the parts of "parts": "L0H1" is a head, "L0 mlp" an MLP.
        edges: the edges of "edges": from the writer ("embed", "L0H1", "L0 mlp") to the reader
            ("L1H0.k", "L1 mlp", "logits").
    """

    counterfactuals: Int[Tensor, "word pos"]
    parts: tuple[str, ...] = ()
    edges: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class VariableWords(Words):
    """The words of "variable".

    Attributes:
        values: the variable's value at each position. A category is one-hot.
        sites: the hooks of the residual stream, in the order of computation.
        base, source, accepted: for a lens that learns from interventions: row i of ``base`` is
            accepted or not, as said, if the variable has the values that it has in row i of
            ``source``, at every position.
    """

    values: Float[Tensor, "word pos size"]
    sites: tuple[str, ...]
    base: Int[Tensor, "pair pos"]
    source: Int[Tensor, "pair pos"]
    accepted: Bool[Tensor, " pair"]


@dataclass(frozen=True, kw_only=True)
class LineWords(Words):
    """The words of "lines".

    Attributes:
        right: is yes the right verdict on the word?
        ends: the position of the last symbol of each word; it has the verdict.
        lines, labels, line_ends: the training lines, in the form of tokens, right and ends.
        weights: all weights side by side at each checkpoint; see ``checkpoints``.
        rates: the learning rates from each checkpoint to the next one, summed.
    """

    right: Bool[Tensor, " word"]
    ends: Int[Tensor, " word"]
    lines: Int[Tensor, "line line_pos"]
    labels: Bool[Tensor, " line"]
    line_ends: Int[Tensor, " line"]
    weights: Float[Tensor, "checkpoint weight"]
    rates: tuple[float, ...]

    def margins(self, model: HookedModel, rows: slice = ALL) -> Float[Tensor, " word"]:
        """The log odds of the right verdict on each word, with a gradient.

        Args:
            rows: the words that are asked for.
        """
        return self._margins(model, self.tokens[rows], self.ends[rows], self.right[rows])

    def line_losses(self, model: HookedModel, rows: slice = ALL) -> Float[Tensor, " line"]:
        """The training loss of each line, in nats, with a gradient.

        Args:
            rows: the lines that are asked for.
        """
        lines = self.lines[rows], self.line_ends[rows], self.labels[rows]
        return -logsigmoid(self._margins(model, *lines))

    def _margins(
        self, model: HookedModel, tokens: Tensor, ends: Tensor, labels: Tensor
    ) -> Float[Tensor, " word"]:
        logits = model(tokens)[torch.arange(len(tokens)), ends, self.token]
        return torch.where(labels, logits, -logits)

    def checkpoints(self, model: HookedTransformer) -> Iterator[tuple[float, HookedTransformer]]:
        """The network during its training, with its rate (``rates``); the last is the network
        itself."""
        for rate, weights in zip(self.rates, self.weights, strict=True):
            earlier = deepcopy(model)
            vector_to_parameters(weights, earlier.parameters())
            yield rate, earlier


PAPERS: Mapping[Question, type[Words]] = {
    "positions": Words,
    "parts": PartWords,
    "edges": PartWords,
    "variable": VariableWords,
    "rule": Words,
    "lines": LineWords,
}


def read_words(folder: Path) -> tuple[Words, Question]:
    """The words and the question that ``Words.write`` put into a folder."""
    about: dict[str, Any] = json.loads((folder / ABOUT).read_text())
    question: Question = about.pop("question")
    about = {name: _as_tuple(value) for name, value in about.items()}
    return PAPERS[question](**about | load_file(folder / TENSORS)), question


def _as_tuple(value: Any) -> Any:
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value


def write_network(model: HookedTransformer, folder: Path) -> None:
    """Puts a network into a folder: its shape, symbols and weights, and not its language."""
    weights = {name: t.detach().contiguous() for name, t in model.state_dict().items()}
    about = {"config": asdict(model.config), "symbols": model.vocabulary.symbols}
    save_file(weights, folder / NETWORK, {"about": json.dumps(about)})


def read_network(folder: Path) -> HookedTransformer:
    """The network that ``write_network`` put into a folder, in evaluation mode."""
    with safe_open(folder / NETWORK, "pt") as file:
        about = json.loads(file.metadata()["about"])
    config = TypeAdapter(ModelConfig).validate_json(json.dumps(about["config"]))
    model = HookedTransformer(config, Vocabulary(tuple(about["symbols"])))
    model.load_state_dict(load_file(folder / NETWORK))
    return model.eval()
