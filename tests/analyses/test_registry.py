"""Every question is asked of small runs of many kinds, and each of its parts does its work.

What a run lacks is said before anything is computed. That each question has every part at all is
told by tests/house/test_one_contract.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import tiny_config, tiny_of

from analyses.answers import answer, arguments_of, fresh_answer, question
from analyses.needs import lack
from analyses.options import behaviour, inside, parts, training
from analyses.registry import BUILT_IN, options_of, usual
from models.errors import UserError
from models.runs.run import Run
from models.training.loop import train

FEW: dict[str, Any] = {
    "perplexity": behaviour.Perplexity(count=2, deepest=1),
    "depths": behaviour.Depths(count=2, deepest=0),
    "targets": behaviour.Targets(windows=1.0, count=2),
    "steps": behaviour.Steps(count=2),
    "in-context": behaviour.InContext(count=4),
    "bias": behaviour.Bias(words=20),
    "dictionary": inside.Dictionary(seeds=1, steps=3, words=40, width=(3,)),
    "syntax": inside.Syntax(words=30),
    "vectors": inside.Vectors(sentences=40, dim=4, seeds=1),
    "senses": inside.Senses(sentences=400),
    "sentences": inside.Sentences(words=40),
    "dimension": inside.Dimension(words=10),
    "positions": inside.Positions(length=16, d_model=8),
    "influence": training.Influence(subsets=10, targets=2, workers=1, device="cpu"),
    "lines": training.Lines(word="leeuw kat", method="dot"),
    "gradients": training.Gradients(words=8),
    "landscape": training.Landscape(words=8, directions=1),
    "ablation": parts.Ablation(off=("L0H0",)),
    "alignment": parts.Alignment(words=4, donors=1),
    "dependencies": parts.Dependencies(count=2),
    "looks": parts.Looks(query="loopt", key="hond kat", count=4),
    "induction": parts.Induction(count=4),
    "reach": parts.Reach(count=4),
    "cosine": parts.Cosine(),
}
"""The least of each question."""

TWO_SIDED = {"max_n": 5, "language": "copy"}
RUNS: dict[str, dict[str, Any]] = {
    "plain": {},
    "learned": {"model": tiny_of("transformer", positions="learned", n_ctx=64)},
    "nested": {"language": "nested", "objective": "language-model", "max_n": 12, "steps": 20},
    "linear": {"language": "linear", "objective": "language-model", "max_n": 12},
    "encoder": {"model": tiny_of("transformer", mask="bidirectional"), "objective": "verdict"},
    "tagger": {
        "model": tiny_of("transformer", mask="bidirectional"),
        "objective": "tags",
        "language": "copy",
    },
    "lstm": {"model": tiny_of("lstm")},
    "cnn": {"model": tiny_of("cnn", kernel_size=3)},
    "ngram": {"model": tiny_of("ngram")},
    "feedforward": {"model": tiny_of("feedforward", n_ctx=16)},
    "pairs": {"model": tiny_of("encoder-decoder"), **TWO_SIDED},
    "pairs of lstm": {"model": tiny_of("lstm-attention"), **TWO_SIDED},
    "steps": {"language": "parity-steps", "objective": "sequence-to-sequence"},
    "prompts": {"language": "in-context", "objective": "sequence-to-sequence", "max_n": 3},
    "two rules": {"language": "ends-or-even", "objective": "verdict", "max_n": 10},
    "lines": {"language": "dieren_muis", "objective": "verdict", "max_n": 8, "lines": 20},
}

ASKED: dict[str, tuple[str, ...]] = {
    "plain": ("ablation", "perplexity", "reach", "cosine", "dimension", "gradients", "landscape"),
    "learned": ("positions",),
    "nested": ("depths", "perplexity", "syntax", "vectors", "sentences", "dependencies", "looks",
        "dictionary"),
    "linear": ("senses",),
    "encoder": ("ablation", "cosine", "dimension", "gradients"),
    "tagger": ("dictionary", "alignment", "landscape"),
    "lstm": ("dimension", "reach", "gradients", "landscape"),
    "cnn": ("reach", "perplexity", "dimension"),
    "ngram": ("perplexity",),
    "feedforward": ("gradients", "landscape", "dictionary"),
    "pairs": ("targets", "alignment", "ablation", "gradients", "positions", "dependencies"),
    "pairs of lstm": ("targets", "alignment", "gradients", "dependencies"),
    "steps": ("steps", "targets", "alignment", "dependencies"),
    "prompts": ("in-context", "induction"),
    "two rules": ("bias",),
    "lines": ("influence", "lines"),
}  # fmt: skip
"""What is asked of each run: every question once, and those again whose lenses see another kind of
model. The usual ones are asked of all kinds in test_kinds.py."""


class Made:
    """Small runs, made when one is asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.runs = folder, dict[str, Run]()

    def __getitem__(self, kind: str) -> Run:
        if kind not in self.runs:
            config = tiny_config(**{"steps": 6, "evaluate_every": 6, **RUNS[kind]})
            self.runs[kind] = Run.create(self.folder / kind.replace(" ", "-"), config)
            train(self.runs[kind], "cpu")
        return self.runs[kind]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("registry"))


def test_every_question_is_asked_here() -> None:
    asked = {name for names in ASKED.values() for name in names}
    assert asked == set(FEW) == set(BUILT_IN) - set(usual())
    assert all(type(options) is options_of(name) for name, options in FEW.items())


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, names in ASKED.items() for name in names]
)
def test_every_part_of_an_answer_is_there(kind: str, name: str, runs: Made) -> None:
    run, asked = runs[kind], question(name)
    assert lack(run, asked.needs) is None
    found = fresh_answer(run, asked, FEW[name])
    assert len(found.table)
    assert found.sentence.endswith(".")
    assert found.arguments == arguments_of(FEW[name])
    assert found.model_hash == run.model_hash()
    numbers = asked.headline(found)
    assert list(numbers.columns) == ["variable", "of", "value"]
    assert numbers["value"].dtype == float
    assert len(numbers)
    assert not numbers.duplicated(["variable", "of"]).any()
    named = {column: set(numbers[column]) for column in ("variable", "of")}
    planned = [{each.first, each.second} <= named[each.by] for each in asked.planned]
    assert any(planned) or not planned
    assert all(isinstance(table, pd.DataFrame) for table in asked.shown(found).values())
    assert asked.chart(found).to_dict()


@pytest.mark.parametrize("kind", RUNS)
def test_what_a_run_lacks_is_said_in_one_line_before_anything_is_computed(
    kind: str, runs: Made
) -> None:
    run = runs[kind]
    for name in BUILT_IN:
        asked, options = question(name), FEW.get(name)
        said = lack(run, asked.needs)
        assert said is None or name not in ASKED[kind]
        if said is not None:
            assert "\n" not in said
            with pytest.raises(UserError) as caught:
                answer(run, name, options)
            assert str(caught.value) == said
