"""What a lens is given beside a network: words, and what is asked of them. No truth is in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from pydantic import TypeAdapter
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from interp.causal.metrics import ReadAt, logit_at
from interp.model import HookedModel
from models.languages.vocabulary import Vocabulary
from models.model_config import ModelConfig
from models.runs.files import as_json
from models.transformer.model import HookedTransformer

Question = Literal["positions", "parts", "edges", "variable", "rule"]
QUESTIONS: tuple[Question, ...] = get_args(Question)
ASKS: Mapping[Question, str] = {
    "positions": "Which symbols of a word decide its verdict?",
    "parts": "Which heads and MLPs does the verdict come through?",
    "edges": "Through which edges?",
    "variable": "In which layer and along which directions does a variable live?",
    "rule": "Which words are accepted?",
}
TENSORS, ABOUT, NETWORK = "words.safetensors", "paper.json", "network.safetensors"


@dataclass(frozen=True)
class Words:
    """What a lens is told.

    Attributes:
        tokens: token ids with BOS; all words have one length.
        token: the id of the token whose logit is the verdict: above zero says yes.
        at: the position where this logit is read; BOS is position 0.
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

    @property
    def metric(self) -> ReadAt:
        """From logits to the verdict, one number per word."""
        return logit_at(self.token, self.at)

    @torch.no_grad()
    def verdicts(self, model: HookedModel, tokens: Int[Tensor, "any pos"]) -> Float[Tensor, " any"]:
        """The network's verdict on each word, which may have any length: above zero says yes."""
        at = self.at and tokens.shape[1] - 1
        return model(tokens)[:, at, self.token]

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
        known |= {name: tuple(known[name]) for name in ("symbols", "parts", "sites")}
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
