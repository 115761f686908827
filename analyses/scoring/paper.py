"""What a lens is given beside a network: words, and what is asked of them. No truth is in it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

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
"""Those that are asked about planted networks. "lines" is asked about trained ones."""
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


@dataclass(frozen=True)
class Words:
    """What a lens is told.

    Attributes:
        tokens: token ids with BOS; all words have one length, but those of "lines", which are
            padded with END.
        token: the id of the token whose logit is the verdict: above zero says yes.
        at: the position where this logit is read; BOS is position 0. Of "lines" it is the last
            symbol of each word.
        symbols: what words are made of; the first has the id 2, after BOS and END.
        longest: the most symbols of a word of the language.
        seed: for a lens that draws.
        counterfactuals: of "parts" and "edges": row i has the other verdict than row i of
            ``tokens``, and differs from it in few symbols.
        values: of "variable": its value at each position. A category is one-hot.
        base, source, accepted: of "variable", for a lens that learns from interventions: row i of
            ``base`` is accepted or not, as said, if the variable has the values that it has in row
            i of ``source``, at every position.
        parts: of "parts": "L0H1" is a head, "L0 mlp" an MLP.
        edges: of "edges": from what writes ("embed", "L0H1", "L0 mlp") to what reads ("L1H0.k",
            "L1 mlp", "logits").
        sites: of "variable": the hooks of the residual stream, in the order of computation.
        right: of "lines": is yes the right verdict on the word?
        ends: of "lines": the position of the last symbol of each word; it has the verdict.
        lines, labels, line_ends: of "lines": what the network was trained on, in the same form.
        weights: of "lines": all weights side by side at each checkpoint; see ``checkpoints``.
        rates: of "lines": the learning rates from each checkpoint to the next one, summed.
    """

    tokens: Int[Tensor, "word pos"]
    token: int
    at: int
    symbols: tuple[str, ...]
    longest: int
    seed: int = 0
    counterfactuals: Int[Tensor, "word pos"] | None = None
    values: Float[Tensor, "word pos size"] | None = None
    base: Int[Tensor, "pair pos"] | None = None
    source: Int[Tensor, "pair pos"] | None = None
    accepted: Bool[Tensor, " pair"] | None = None
    parts: tuple[str, ...] = ()
    edges: tuple[tuple[str, str], ...] = ()
    sites: tuple[str, ...] = ()
    right: Bool[Tensor, " word"] | None = None
    ends: Int[Tensor, " word"] | None = None
    lines: Int[Tensor, "line line_pos"] | None = None
    labels: Bool[Tensor, " line"] | None = None
    line_ends: Int[Tensor, " line"] | None = None
    weights: Float[Tensor, "checkpoint weight"] | None = None
    rates: tuple[float, ...] = ()

    @property
    def metric(self) -> ReadAt:
        """From logits to the verdict, one number per word."""
        return logit_at(self.token, self.at)

    @torch.no_grad()
    def verdicts(self, model: HookedModel, tokens: Int[Tensor, "any pos"]) -> Float[Tensor, " any"]:
        """The network's verdict on each word, which may have any length: above zero says yes."""
        at = self.at and tokens.shape[1] - 1
        return model(tokens)[:, at, self.token]

    def margins(self, model: HookedModel, rows: slice = ALL) -> Float[Tensor, " word"]:
        """Of "lines": the log odds of the right verdict on each word, with a gradient.

        Args:
            rows: the words that are asked for.
        """
        assert self.right is not None
        assert self.ends is not None
        return self._margins(model, self.tokens[rows], self.ends[rows], self.right[rows])

    def line_losses(self, model: HookedModel, rows: slice = ALL) -> Float[Tensor, " line"]:
        """Of "lines": what each line costs in training, in nats, with a gradient.

        Args:
            rows: the lines that are asked for.
        """
        assert self.lines is not None
        assert self.line_ends is not None
        assert self.labels is not None
        own = self.lines[rows], self.line_ends[rows], self.labels[rows]
        return -logsigmoid(self._margins(model, *own))

    def _margins(
        self, model: HookedModel, tokens: Tensor, ends: Tensor, labels: Tensor
    ) -> Float[Tensor, " word"]:
        logits = model(tokens)[torch.arange(len(tokens)), ends, self.token]
        return torch.where(labels, logits, -logits)

    def checkpoints(self, model: HookedTransformer) -> Iterator[tuple[float, HookedTransformer]]:
        """Of "lines": the network during its training, with its rate (``rates``); the last is the
        network itself."""
        assert self.weights is not None
        for rate, weights in zip(self.rates, self.weights, strict=True):
            earlier = deepcopy(model)
            vector_to_parameters(weights, earlier.parameters())
            yield rate, earlier

    def write(self, folder: Path, question: Question) -> None:
        """Puts it into a folder, for another process."""
        all_fields = {each.name: getattr(self, each.name) for each in fields(self)}
        tensors = {k: v.contiguous() for k, v in all_fields.items() if isinstance(v, Tensor)}
        save_file(tensors, folder / TENSORS)
        about = {k: v for k, v in all_fields.items() if v is not None and k not in tensors}
        (folder / ABOUT).write_bytes(as_json(about | {"question": question}))

    @classmethod
    def read(cls, folder: Path) -> tuple[Words, Question]:
        """What ``write`` put there."""
        known: dict[str, Any] = json.loads((folder / ABOUT).read_text())
        question = known.pop("question")
        known |= {name: tuple(known[name]) for name in ("symbols", "parts", "sites", "rates")}
        known["edges"] = tuple(map(tuple, known["edges"]))
        known |= load_file(folder / TENSORS)
        return cls(**known), question


def write_network(model: HookedTransformer, folder: Path) -> None:
    """Puts a network into a folder: its shape, symbols and weights, and not its language."""
    weights = {name: t.detach().contiguous() for name, t in model.state_dict().items()}
    about = {"config": asdict(model.config), "symbols": model.vocabulary.symbols}
    save_file(weights, folder / NETWORK, {"about": json.dumps(about)})


def read_network(folder: Path) -> HookedTransformer:
    """What ``write_network`` put there, in evaluation mode."""
    with safe_open(folder / NETWORK, "pt") as file:
        about = json.loads(file.metadata()["about"])
    config = TypeAdapter(ModelConfig).validate_json(json.dumps(about["config"]))
    model = HookedTransformer(config, Vocabulary(tuple(about["symbols"])))
    model.load_state_dict(load_file(folder / NETWORK))
    return model.eval()
