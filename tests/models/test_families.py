"""A family of models is one registry entry: a sixth one is trained, judged and refused by it."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from conftest import TINY, tiny_config, tiny_of
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformer_lens.hook_points import HookPoint

from models.base import EmbeddingModel, Unembed, build, initialise
from models.choices import Counting
from models.errors import UserError
from models.families import FAMILIES, Family
from models.hooks import STREAM, HookRow
from models.languages import Vocabulary
from models.model_config import ModelConfig
from models.objectives import objective
from models.operations import operations
from models.rivals.feedforward import HookedFeedforward
from models.runs.run import Run
from models.training.evaluation import evaluate
from models.training.loop import train
from models.training.recipes import recipe
from models.training.stacked import can_be_stacked
from models.training.together import train_together

ROOT = Path(__file__).parents[2]


class Bag(EmbeddingModel):
    """The mean of the embeddings so far."""

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary, seed: int = 0) -> None:
        super().__init__(config, vocabulary)
        with torch.random.fork_rng(devices=[]):
            self.embed = nn.Embedding(len(vocabulary), config.d_model)
            self.hook_mean = HookPoint()
            self.unembed = Unembed(config, len(vocabulary))
        initialise(self, torch.Generator().manual_seed(seed))
        self.setup()

    def logits(
        self, tokens: Int[Tensor, "batch pos"], offsets: Int[Tensor, " batch"] | None
    ) -> Float[Tensor, "batch pos d_vocab"]:
        seen = torch.arange(1, tokens.shape[1] + 1)[:, None]
        return self.unembed(self.hook_mean(self.embed(tokens).cumsum(1) / seen))


def bag_rows(config: ModelConfig) -> list[HookRow]:
    return [HookRow("hook_mean", STREAM, "the mean of the embeddings so far")]


@pytest.fixture
def bag(monkeypatch: pytest.MonkeyPatch) -> ModelConfig:
    """A configuration of a family that the lab does not have."""
    reads = frozenset({"d_model", "counting.centred"})
    paths, caption = (f"{__name__}:Bag", f"{__name__}:bag_rows"), "The mean of what was read."
    entry = Family("bag", *paths, caption, reads, lambda config: True)
    monkeypatch.setitem(FAMILIES, "bag", entry)
    return replace(TINY, architecture="bag")


def test_a_sixth_family_is_trained_and_judged(bag: ModelConfig, tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", tiny_config(model=bag))
    train(run, "cpu")
    assert bag.kind == "bag"
    assert isinstance(run.model(), Bag)
    before, after = (run.model(step).state_dict() for step in (0, 12))
    assert not torch.equal(before["embed.weight"], after["embed.weight"])
    taught = objective(run.config.objective)
    scores = list(evaluate(run.model(), run.language, taught, [2, 4], 8))
    assert [score.length for score in scores] == [2, 4]


def test_many_seeds_of_it_are_trained_as_one(bag: ModelConfig, tmp_path: Path) -> None:
    assert can_be_stacked(bag)
    runs = []
    for seed in (0, 1):
        alone = Run.create(tmp_path / f"alone-{seed}", tiny_config(model=bag, seed=seed))
        train(alone, "cpu")
        runs.append(Run.create(tmp_path / f"{seed}", tiny_config(model=bag, seed=seed)))
    train_together(runs, "cpu")
    for seed, run in enumerate(runs):
        expected = Run(tmp_path / f"alone-{seed}").model().state_dict()
        for name, value in run.model().state_dict().items():
            torch.testing.assert_close(value, expected[name], atol=1e-5, rtol=1e-4)


def test_its_hooks_are_those_of_its_table(bag: ModelConfig) -> None:
    model = build(bag, Vocabulary(("a", "b")))
    _, cache = model.run_with_cache(torch.zeros(1, 3, dtype=torch.long))
    assert list(cache.keys()) == [row.name for row in bag.hook_rows]


def test_it_starts_from_the_rivals_recipe(bag: ModelConfig) -> None:
    assert recipe("anbn", bag).model == ModelConfig(architecture="bag", act_fn="relu")


@pytest.mark.parametrize(
    "changes",
    [
        {"norm": "rms"},
        {"mask": "bidirectional"},
        {"head_width": 3},
        {"counting": Counting(head_norm=True)},
    ],
)
def test_a_choice_that_it_does_not_read_is_refused(
    bag: ModelConfig, changes: dict[str, object]
) -> None:
    with pytest.raises(UserError, match=r"belongs to .*transformer.*, not to architecture bag"):
        replace(bag, **changes)


def test_what_it_reads_and_what_plays_no_part_is_not(bag: ModelConfig) -> None:
    replace(bag, counting=Counting(centred=True), d_model=4, n_heads=7, kernel_size=2)


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(UserError, match=r"^architecture is 'bag': choose one of transformer, lstm"):
        replace(TINY, architecture="bag")


@pytest.mark.parametrize("name", FAMILIES)
def test_an_entry_says_what_its_model_is(name: str) -> None:
    """What others ask of an entry, held against the model itself."""
    family, config = FAMILIES[name], tiny_of(name)
    model = build(config, Vocabulary(("a", "b")))
    hooks = set(model.hook_dict)
    assert family.attends == ("blocks.0.attn.hook_pattern" in hooks)
    assert family.tabular == model.learns_by_counting == (not list(model.parameters()))
    assert family.residual == ("ln_final.hook_scale" in hooks)
    rnn = any(isinstance(part, nn.RNNBase) for part in model.modules())
    assert family.recurrent == rnn
    assert family.whole == isinstance(model, HookedFeedforward)
    assert family.two_sided == hasattr(model, "border")
    assert family.caption.endswith(".")
    named = {hook for hook, *_ in family.formulas} | {box.hook for box in family.boxes} - {""}
    assert {f"blocks.0.{hook}" for hook in named} <= hooks
    parts = operations(config, len(model.vocabulary))
    assert bool(parts) == (not family.tabular and not family.two_sided)
    for part in parts:
        for module in (*part.modules, *part.without):
            model.get_submodule(module)


@pytest.mark.slow
def test_nobody_asks_for_the_name_of_an_architecture() -> None:
    """``config.architecture`` is looked up in the configuration to find its entry, nowhere else;
    and no table elsewhere has families as its keys."""
    asked = []
    for room in ("models", "interp", "analyses", "dashboard"):
        for file in sorted((ROOT / room).rglob("*.py")):
            if file == ROOT / "models" / "model_config.py":
                continue
            text = file.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Dict):
                    keys = {key.value for key in node.keys if isinstance(key, ast.Constant)}
                    if len(keys & set(FAMILIES)) > 1:
                        asked.append(f"{file.relative_to(ROOT)}:{node.lineno}")
                branches = isinstance(node, (ast.Compare, ast.Subscript, ast.Match))
                if branches and ".architecture" in text:
                    parts = [ast.unparse(part) for part in ast.iter_child_nodes(node)]
                    if any(part.endswith(".architecture") for part in parts):
                        asked.append(f"{file.relative_to(ROOT)}:{node.lineno}")
    assert asked == []
