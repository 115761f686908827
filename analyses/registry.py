"""The registry of questions. No question is imported before it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from models.errors import unknown

Group = Literal["behaviour", "parts", "inside", "words", "training", "rule"]


@dataclass(frozen=True)
class _Entry:
    """A question of the lab.

    The question is the object ``QUESTION`` in the module of ``analyses.questions.GROUP`` with its
    name. Its options are the class of its name in ``analyses.options.GROUP``.

    Attributes:
        group: the folder of the question, and its heading in lists.
        asks: the question in words.
        usual: whether it is asked where no question is named.
    """

    group: Group
    asks: str
    usual: bool = False


BUILT_IN = {
    "accuracy": _Entry(
        "behaviour", "How far beyond the training window is the model still right?", usual=True
    ),
    "perplexity": _Entry(
        "behaviour", "How close is the model's next-token distribution to the language's own?"
    ),
    "depths": _Entry("behaviour", "How deep may words be embedded until the model is wrong?"),
    "targets": _Entry(
        "behaviour", "Is the target of a source right, and what follows after an error?"
    ),
    "steps": _Entry("behaviour", "A written step is turned around: does what follows believe it?"),
    "in-context": _Entry("behaviour", "Does the answer follow the examples in the prompt?"),
    "bias": _Entry(
        "behaviour", "Which of two rules did the model take whose training words fit both?"
    ),
    "probing": _Entry(
        "inside",
        "Which hidden variable of the language can be read off which activation?",
        usual=True,
    ),
    "emergence": _Entry(
        "training", "When in training does each hidden variable become readable?", usual=True
    ),
    "interventions": _Entry(
        "inside",
        "Does the model use a hidden variable? "
        "What does it do when the variable is erased, moved or exchanged?",
        usual=True,
    ),
    "dictionary": _Entry("inside", "Do sparse dictionaries find what is known of a site?"),
    "syntax": _Entry("inside", "Is the tree of a word in the activations?"),
    "vectors": _Entry("inside", "Do vectors of words know their classes?"),
    "senses": _Entry("inside", "One form, two senses: from which layer on can they be told apart?"),
    "sentences": _Entry(
        "inside", "What does one vector hold of a whole word, by the way in which it is made?"
    ),
    "dimension": _Entry("inside", "How many dimensions do the activations fill, layer by layer?"),
    "positions": _Entry(
        "inside",
        "Is each kind of position bounded, unique, consistent step by step, and readable?",
    ),
    "heads": _Entry(
        "parts",
        "Which heads does the verdict need, which write it, and do they look where it matters?",
        usual=True,
    ),
    "patching": _Entry(
        "parts",
        "Which activations carry the difference between a word and its counterfactual?",
        usual=True,
    ),
    "circuits": _Entry(
        "parts",
        "Which parts of the model carry the verdict, what do they read from each other, "
        "and is the rest idle?",
        usual=True,
    ),
    "ablation": _Entry("parts", "What is still right without the parts that you name?"),
    "alignment": _Entry(
        "parts",
        "Does attention to a source show where each symbol of the target comes from, "
        "and does the source matter there?",
    ),
    "dependencies": _Entry(
        "parts", "Which earlier symbol decides what may come next, and how does the model know?"
    ),
    "looks": _Entry(
        "parts",
        "Do symbols of one kind look at those of another, head by head, and does it matter?",
    ),
    "induction": _Entry("parts", "Which heads does an answer by examples need?"),
    "reach": _Entry(
        "parts",
        "How strongly does a symbol k places back reach the last logit, and by how many steps?",
    ),
    "cosine": _Entry(
        "parts", "Does a head score tokens higher, the more alike their embeddings are?"
    ),
    "explanations": _Entry(
        "words",
        "Which symbols decide according to each method, and which really decide?",
        usual=True,
    ),
    "leaderboard": _Entry(
        "words",
        "Which explanation method tells the truth about this model, and at what cost?",
        usual=True,
    ),
    "influence": _Entry("training", "Which training lines made the network say what it says?"),
    "lines": _Entry(
        "training", "Which training lines speak for this answer, and whose labels may be wrong?"
    ),
    "gradients": _Entry(
        "training", "Where does the gradient arrive, and how far do activations move in training?"
    ),
    "landscape": _Entry(
        "training", "How curved is the loss around the weights, before and after training?"
    ),
    "discovery": _Entry(
        "rule",
        "Which rule describes the network's verdicts, and how far can it be trusted?",
        usual=True,
    ),
}
"""The questions of the lab by name."""

ENTRY_POINTS = "structure_lab.questions"
"""Entry points of other packages: ``shortest = "their_package.module:QUESTION"``."""


@cache
def registered() -> Mapping[str, EntryPoint]:
    """Every question by its name, those of other packages among them; nothing is imported yet."""
    at = {
        name: f"analyses.questions.{item.group}.{name.replace('-', '_')}:QUESTION"
        for name, item in BUILT_IN.items()
    }
    ours = {name: EntryPoint(name, where, ENTRY_POINTS) for name, where in at.items()}
    others = sorted(entry_points(group=ENTRY_POINTS), key=lambda point: point.name)
    return ours | {point.name: point for point in others if point.name not in ours}


def usual() -> list[str]:
    """The questions that are asked where none is named; those of other packages are among them."""
    return [name for name in registered() if name not in BUILT_IN or BUILT_IN[name].usual]


def entry(name: str) -> EntryPoint:
    """The entry point of a question. Raises UserError for an unknown name."""
    if name not in registered():
        raise unknown("question", name, [*registered(), "all"])
    return registered()[name]


def options_of(name: str) -> type[Any]:
    """The options of a question. Those of the lab are found without importing the question. Raises
    UserError for an unknown name."""
    if name not in BUILT_IN:
        options: type[Any] = entry(name).load().options
        return options
    module = import_module(f"analyses.options.{BUILT_IN[name].group}")
    options = getattr(module, name.title().replace("-", ""))
    return options
