"""Every combination of parts either is refused in one line, or trains, is saved and comes back."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints
from unittest import mock

import pytest
import torch
from conftest import TINY, stir, tiny_config, tiny_of
from hypothesis import given, settings
from hypothesis import strategies as st
from test_training import bits

from models.base import LanguageModel, build
from models.checks import changed, dotted
from models.choices import ABSOLUTE, Counting, Mask, Positions
from models.config import TrainConfig
from models.errors import UserError
from models.families import FAMILIES
from models.languages import Vocabulary
from models.model_config import ModelConfig
from models.objectives import OBJECTIVES
from models.runs.run import Run
from models.training.loop import train
from models.training.trainer import Trainer

Values = dict[str, Any]

KINDS = get_type_hints(ModelConfig)
KINDS |= {f"counting.{name}": kind for name, kind in get_type_hints(KINDS.pop("counting")).items()}
CHOICES: dict[str, tuple[Any, ...]] = (
    {"architecture": tuple(FAMILIES)}
    | {name: get_args(kind) for name, kind in KINDS.items() if get_origin(kind) is Literal}
    | {
        "bias": (True, False),
        "parallel": (False, True),
        "residual": (True, False),
        "dropout": (0.0, 0.2),
        "even_start": (True, False),
        "counting.head_norm": (False, True),
        "counting.counters": (False, True),
    }
)
SIZES: dict[str, tuple[int, ...]] = {
    "n_layers": (1, 2, 3),
    "n_heads": (1, 2, 3),
    "counting.averaging_heads": (0, 1, 2),
    "d_model": (6, 9, 12),
    "head_width": (0, 3, 4),
    "value_width": (0, 2, 5),
    "window": (0, 2, 3),
    "order": (1, 2, 3, 5),
    "kernel_size": (1, 2, 5),
}
FIXED: Values = {"d_mlp": 10, "n_ctx": 64}
DEFAULT = dotted(ModelConfig())

BATCH, POS = 5, 7


def test_every_choice_is_known() -> None:
    """All fields are drawn below, but those whose value is of no consequence to what is built."""
    assert set(KINDS) - set(CHOICES) - set(SIZES) == {
        *FIXED,
        *("eps", "position_base", "counting.centred"),
    }
    assert len(CHOICES["architecture"]) >= 5


# -- which combinations there are, said a second time -------------------------------------------

ATTENTION = {"scores", "mask", "window", "positions", "mlp", "head_width", "value_width"}
ATTENTION |= {"qk_norm", "parallel", "dropout", "even_start"}
COUNTING = {"counting.averaging_heads", "counting.head_norm", "counting.counters"}
ATTENTION |= COUNTING
NORMS = {"norm", "norm_placement", "residual"}
BLOCKS_OF = dict.fromkeys(("rnn", "lstm", "gru", "ngram", "feedforward"), ATTENTION | NORMS)
BLOCKS_OF |= {"cnn": ATTENTION}
BLOCKS_OF |= dict.fromkeys(("lstm-encoder-decoder", "lstm-attention"), ATTENTION | NORMS)
BLOCKS_OF |= {"transformer": set(), "encoder-decoder": {"mask", "window", "parallel", *COUNTING}}
TWO_SIDED = {"encoder-decoder", "lstm-encoder-decoder", "lstm-attention"}
ATTENDING = ("transformer", "encoder-decoder")
OUTPUTS = {"language-model": "softmax", "masked": "masked", "tags": "tags"}
OUTPUTS |= {"sequence-to-sequence": "conditional"}
IN_PLACE = ("masked", "tags")
"""What encoders alone are taught, where each symbol stands."""


def model_config(asked: Values) -> ModelConfig:
    """The configuration of values by dotted name, as "counting.counters"."""
    return changed(ModelConfig(), asked)


def refused(asked: Values) -> bool:
    """Is there no such model?"""
    v = {**DEFAULT, **asked}
    if v["norm"] == "none" and v["norm_placement"] != "pre":
        return True
    if v["parallel"] and (v["mlp"] == "none" or v["norm_placement"] != "pre"):
        return True
    if v["parallel"] and not v["residual"]:
        return True
    if v["architecture"] in TWO_SIDED and v["n_layers"] < 2:
        return True
    if any(v[name] != DEFAULT[name] for name in BLOCKS_OF[v["architecture"]]):
        return True
    if v["architecture"] not in ATTENDING:
        return False
    if v["window"] and v["mask"] != "causal":
        return True
    if v["head_width"] == 0 and v["d_model"] % v["n_heads"]:
        return True
    far = bool(v["window"]) or v["positions"] in ("rotary", "alibi", "t5")
    if v["scores"] == "linear" and far:
        return True
    averaging, counters = v["counting.averaging_heads"], v["counting.counters"]
    if averaging >= v["n_heads"]:
        return True
    if counters and (v["counting.head_norm"] or not averaging):
        return True
    width = v["head_width"] or v["d_model"] // v["n_heads"]
    if v["positions"] == "rotary" and (v["scores"] == "additive" or width % 2):
        return True
    if v["scores"] == "identity" and width * v["n_heads"] != v["d_model"]:
        return True
    parts = {"sinusoidal": 2, "concatenated": 4}.get(v["positions"], 1)
    return bool(v["d_model"] % parts)


def refused_to_train(asked: Values, taught: Values) -> bool:
    """Is there such a model, but no such training?"""
    v = {**DEFAULT, **asked}
    sees_all = v["mask"] == "bidirectional" and taught["objective"] not in ("verdict", *IN_PLACE)
    sees_all |= v["mask"] != "bidirectional" and taught["objective"] in IN_PLACE
    wanted = OUTPUTS.get(taught["objective"], "sigmoid")
    two_minds = v["output"] not in ("sigmoid", wanted)
    whole = v["architecture"] == "feedforward"
    if whole:
        sees_all = taught["objective"] != "verdict"
    one_side = v["architecture"] in TWO_SIDED and wanted != "conditional"
    return (
        sees_all
        or two_minds
        or one_side
        or bool(taught["max_offset"] and v["positions"] not in ABSOLUTE)
    )


def attempt(make: Callable[[], Any]) -> tuple[Any, str]:
    """What is made, or the reason why not, which is one line."""
    try:
        return make(), ""
    except UserError as error:
        reason = str(error)
        assert reason
        assert "\n" not in reason
        assert len(reason) < 200
        return None, reason


def vary(*names: str) -> list[Values]:
    """All combinations of the choices of these fields."""
    return [
        dict(zip(names, row, strict=True))
        for row in itertools.product(*(CHOICES[name] for name in names))
    ]


@pytest.mark.slow
def test_exactly_the_impossible_combinations_are_refused() -> None:
    free = (
        "act_fn",
        "bias",
        "qk_norm",
        "dropout",
        "output",
        "even_start",
        *COUNTING,
    )  # they go with all others
    names = [name for name in CHOICES if name not in free]
    parts = [name for name in names if name != "architecture"]
    # All combinations where there is attention, and elsewhere, where few are read, all pairs.
    combined = [{"architecture": kind, **row} for kind in ATTENDING for row in vary(*parts)]
    for two in itertools.combinations(parts, 2):
        rows = vary("architecture", *two)
        combined += [row for row in rows if row["architecture"] not in ATTENDING]
    accepted = 0
    for asked in combined:
        config, reason = attempt(lambda asked=asked: model_config(asked))
        assert bool(reason) == refused(asked), (asked, reason)
        accepted += config is not None
    assert accepted > 1000


@pytest.mark.parametrize("architecture", list(FAMILIES))
def test_sizes_that_do_not_fit_are_refused(architecture: str) -> None:
    for positions in get_args(Positions) if architecture in ATTENDING else ("none",):
        for row in itertools.product(*(SIZES[n] for n in ("n_heads", "d_model", "head_width"))):
            asked = dict(zip(("n_heads", "d_model", "head_width"), row, strict=True))
            asked |= {"architecture": architecture, "positions": positions}
            _, reason = attempt(lambda asked=asked: model_config(asked))
            assert bool(reason) == refused(asked), (asked, reason)


@pytest.mark.parametrize("name", [n for n in CHOICES if isinstance(CHOICES[n][0], str)])
def test_a_value_that_is_none_of_the_choices_is_refused(name: str) -> None:
    """Made past the constructor, whose types are checked while tests run."""
    config = object.__new__(ModelConfig)
    for field, value in {**DEFAULT, name: "maximal"}.items():
        object.__setattr__(config, field, value)
    with pytest.raises(UserError, match=rf"^{name} is 'maximal': choose one of [^\n]*$"):
        config.__post_init__()


@pytest.mark.parametrize(
    "changes",
    [
        {"order": 0},
        {"order": 6},
        {"head_width": -1},
        {"value_width": -1},
        {"dropout": -0.1},
        {"dropout": 1.0},
        {"counting.averaging_heads": 4},
        {"counting.averaging_heads": -1},
    ],
)
def test_impossible_sizes_are_refused(changes: Values) -> None:
    name = next(iter(changes)).removeprefix("counting.")
    with pytest.raises(UserError, match=rf"^{name} is [^\n]*$"):
        model_config(changes)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"counting.averaging_heads": 1, "counting.head_norm": True},
        {"counting.averaging_heads": 1, "architecture": "lstm"},
    ],
)
def test_counters_without_sense_are_refused(changes: Values) -> None:
    with pytest.raises(UserError, match=r"^count(ers|ing)[^\n]*$"):
        model_config({"counting.counters": True, **changes})


@pytest.mark.parametrize("mask", get_args(Mask))
@pytest.mark.parametrize("positions", get_args(Positions))
def test_trainings_without_sense_are_refused(mask: str, positions: str) -> None:
    asked = {"mask": mask, "positions": positions}
    for objective, max_offset in itertools.product(OBJECTIVES, (0, 3)):
        taught = {"objective": objective, "max_offset": max_offset}
        model = model_config(asked)
        _, reason = attempt(lambda taught=taught, model=model: tiny_config(**taught, model=model))
        assert bool(reason) == refused_to_train(asked, taught)


# -- every hook ---------------------------------------------------------------------------------


def check_hooks(model: LanguageModel, tokens: torch.Tensor) -> None:
    """Their names, and the shapes of what they hear, are those of the table."""
    config = model.config
    _, cache = model.run_with_cache(tokens)
    d_vocab = len(model.vocabulary)
    sizes = {"batch": BATCH, "pos": POS, "query": POS, "key": POS, "1": 1}
    sizes |= {"head": config.n_heads, "d_head": config.d_head, "d_mlp": config.d_mlp}
    sizes |= {"d_value": config.d_value, "d_vocab": d_vocab}
    sizes |= {"d_model": config.d_model, "window": max(1, (config.order - 1) * d_vocab)}
    expected = {
        name: tuple(sizes[axis] for axis in row.shape)
        for row in config.hook_rows
        for name in row.names(config.n_layers)
    }
    assert sorted(model.hook_dict) == sorted(expected)
    assert {name: tuple(value.shape) for name, value in cache.items()} == expected
    if config.n_layers == 1 + config.family.two_sided:
        assert list(cache.keys()) == list(expected)  # the order of computation


def some_tokens(d_vocab: int) -> torch.Tensor:
    drawn = torch.randint(2, d_vocab, (BATCH, POS), generator=torch.Generator().manual_seed(2))
    drawn[:, 0] = 0
    return drawn


def pairs() -> list[Values]:
    """Every value of every choice beside every value of every other; in an encoder-decoder, whose
    parts are the same, every value alone."""
    found = [row for two in itertools.combinations(CHOICES, 2) for row in vary(*two)]
    single = [row for name in CHOICES for row in vary(name) if name != "architecture"]
    sided = [{"architecture": "encoder-decoder", **row} for row in single]
    return [row for row in [*found, *sided] if not refused({"n_layers": 2, **row})]


@pytest.mark.slow
def test_all_pairs_of_choices_are_built_and_show_every_hook() -> None:
    vocabulary = Vocabulary(("a", "b", ">"))
    tokens = some_tokens(5)
    sizes = {"n_heads": 2, "d_model": 12}
    built = set()
    for asked in pairs():
        layers = 2 if asked.get("architecture") in TWO_SIDED else 1
        config = model_config(FIXED | sizes | asked | {"n_layers": layers})
        if config in built:
            continue
        built.add(config)
        model = build(config, vocabulary, 3).eval()
        plain = model(tokens)
        assert plain.shape == (BATCH, POS, 5)
        assert plain.isfinite().all()
        check_hooks(model, tokens)
    assert len(built) > 100


# -- trained, saved, loaded ---------------------------------------------------------------------


@st.composite
def variants(draw: st.DrawFn) -> tuple[Values, Values]:
    """A model's fields and its training's, most of which fit together."""
    architectures = CHOICES["architecture"] + ("transformer",) * 5  # the one with most to choose
    asked: Values = {"architecture": draw(st.sampled_from(architectures))}
    for name, values in (CHOICES | SIZES).items():
        lost = name in BLOCKS_OF[asked["architecture"]] and draw(st.integers(0, 30)) < 30
        if name != "architecture" and not lost:
            asked[name] = draw(st.sampled_from(values))
    taught = {"objective": "verdict", "max_offset": 0}
    if asked.get("mask") == "bidirectional" and draw(st.booleans()):
        taught["objective"] = draw(st.sampled_from(IN_PLACE))
    elif asked.get("mask") != "bidirectional" or draw(st.integers(0, 9)) == 9:
        taught["objective"] = draw(st.sampled_from(list(OBJECTIVES)))
    if asked.get("positions") in ABSOLUTE or draw(st.integers(0, 9)) == 9:
        taught["max_offset"] = draw(st.sampled_from([0, 3]))
    return asked, taught


def trained_in_memory(run: Run) -> LanguageModel:
    """Trains the run; the model that was trained, not the one that was saved."""
    start, kept = Trainer.at_start, []

    def keep(run: Run, device: torch.device) -> Trainer:
        kept.append(start(run, device))
        return kept[-1]

    with mock.patch.object(Trainer, "at_start", keep):
        train(run, device="cpu")
    return kept[0].model.eval()


SHORT: Values = {"max_n": 3, "steps": 10, "evaluate_every": 10, "batch_size": 4}


@pytest.mark.slow
@settings(max_examples=40)
@given(variants())
def test_a_variant_is_refused_or_trains_and_comes_back(
    tmp_path_factory: pytest.TempPathFactory, variant: tuple[Values, Values]
) -> None:
    asked, taught = variant
    model, reason = attempt(lambda: model_config(FIXED | asked))
    assert bool(reason) == refused(asked), reason
    if reason:
        return
    config, reason = attempt(lambda: tiny_config(**SHORT, **taught, model=model))
    assert bool(reason) == refused_to_train(asked, taught), reason
    if reason:
        return
    check_trains(Run.create(tmp_path_factory.mktemp("variant") / "run", config))


def check_trains(run: Run) -> None:
    in_memory = trained_in_memory(run)
    assert run.record["status"] == "finished"
    assert run.config == TrainConfig.from_dict(run.record["config"])
    loaded, fresh = Run(run.path).model(), run.model(0).state_dict()
    tokens = some_tokens(len(loaded.vocabulary))
    with torch.no_grad():
        logits = loaded(tokens)
        assert torch.equal(logits, in_memory(tokens))
        assert logits.isfinite().all()
    for name, value in loaded.state_dict().items():
        assert value.isfinite().all(), name
        assert not torch.equal(value, fresh[name]), f"{name} was not trained"
    assert not loaded.training
    check_hooks(loaded, tokens)


# -- killed and resumed -------------------------------------------------------------------------

RESUMED: dict[str, tuple[Values, Values]] = {
    **{name: ({}, vars(tiny_of(name))) for name in list(FAMILIES)},
    "learned": ({"max_offset": 5}, {"positions": "learned", "n_ctx": 64}),
    "appended": ({"max_offset": 5}, {"positions": "appended", "n_ctx": 32}),
    "concatenated": ({"max_offset": 5}, {"positions": "concatenated"}),
    "encoder": (
        {"objective": "verdict"},
        {"mask": "bidirectional", "positions": "t5", "norm": "rms", "norm_placement": "sandwich"},
    ),
    "masked": ({"objective": "masked"}, {"mask": "bidirectional", "positions": "alibi"}),
    "tags": ({"objective": "tags"}, {"mask": "bidirectional", "positions": "rotary"}),
    "additive": ({}, {"scores": "additive", "mask": "strictly_causal", "mlp": "gated"}),
    "rotary": ({}, {"positions": "rotary", "norm_placement": "post", "bias": False}),
    "averaging": ({}, {"counting": Counting(averaging_heads=1, head_norm=True, centred=True)}),
    "counters": ({}, {"counting": Counting(averaging_heads=1, counters=True)}),
    "no residual": ({}, {"residual": False, "positions": "learned"}),
    "dropout": ({}, {"dropout": 0.3, "norm_placement": "sandwich"}),
    "identity": ({}, {"scores": "identity", "positions": "rotary", "qk_norm": "rms"}),
    "linear": ({}, {"scores": "linear", "value_width": 3, "dropout": 0.1}),
    "parallel": ({}, {"parallel": True, "qk_norm": "layer", "positions": "rotary"}),
    "pairs": (
        {"language": "copy", "objective": "sequence-to-sequence"},
        {"architecture": "encoder-decoder", "n_layers": 2, "dropout": 0.3, "qk_norm": "rms"},
    ),
}


ALIKE = {"appended", "concatenated", "additive", "rotary", "averaging", "counters", "no residual"}
ALIKE |= {"identity", "parallel", "gru", "rnn"}
"""Nothing but weights and moments stands in their states, as in those of others."""


@pytest.mark.parametrize(
    "kind",
    [pytest.param(k, marks=[pytest.mark.torture] if k in ALIKE else []) for k in RESUMED],
)
def test_an_interrupted_run_ends_with_the_same_bits(tmp_path: Path, kind: str) -> None:
    """Stopped two steps after a state was saved, and once before there was any."""
    taught, asked = RESUMED[kind]
    config = tiny_config(**taught, steps=6, model=replace(TINY, **asked))
    whole, broken = Run.create(tmp_path / "whole", config), Run.create(tmp_path / "b", config)
    train(whole, device="cpu")
    for stop in (1, 5):

        def progress(step: int, value: float | None, stop: int = stop) -> None:
            if step == stop:
                raise InterruptedError

        with pytest.raises(InterruptedError):
            train(broken, "cpu", progress)
        assert broken.record["status"] == "training"
    train(broken, device="cpu")
    assert bits(broken) == bits(whole)
    assert whole.model_hash() != whole.model_and_hash(0)[1]


def test_the_seed_decides_every_architecture_s_weights() -> None:
    """An n-gram model draws none: its words alone differ."""
    vocabulary = Vocabulary(("a", "b"))
    for architecture in FAMILIES:
        config = tiny_of(architecture)
        before = torch.get_rng_state()
        first, again, other = (build(config, vocabulary, s).state_dict() for s in (1, 1, 2))
        assert torch.equal(torch.get_rng_state(), before)
        assert all(torch.equal(first[name], again[name]) for name in first)
        same = all(torch.equal(first[name], other[name]) for name in first)
        assert same == (architecture == "ngram")


def test_stirring_moves_what_is_read() -> None:
    """Parameters that nothing reads would pass all that is above."""
    vocabulary, tokens = Vocabulary(("a", "b", "c")), some_tokens(5)
    kinds = ({}, {"mlp": "gated"}, {"norm_placement": "sandwich"}, {"scores": "additive"})
    for changes in (*kinds, {"parallel": True}, {"value_width": 3, "norm": "rms"}):
        config = replace(TINY, positions="t5", **changes)
        model = stir(build(config, vocabulary, 0)).double()
        model(tokens).pow(2).sum().backward()
        for name, parameter in model.named_parameters():
            silent = name.endswith("attn.k.bias") and config.scores != "additive"
            assert silent or parameter.grad.abs().max() > 1e-6, name
