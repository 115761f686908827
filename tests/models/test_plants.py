"""Planted networks: the program is the truth, the network is the program, the plan says how."""

from __future__ import annotations

import json
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from analyses.command_line.app import main
from models.errors import UserError
from models.languages import language
from models.languages.grammars.bounded import BOUNDED, BoundedLanguage
from models.languages.vocabulary import BOS_ID, END_ID
from models.plants.compiler import _plan, compiled
from models.plants.dials import stream_of
from models.plants.plant import LEAST, PLAN, Plant, _AllWords, plant, write
from models.plants.program import Program, Select
from models.plants.programs import PROGRAMS
from models.plants.settings import Dials
from models.runs import files
from models.runs.checkpoints import WEIGHTS
from models.runs.run import Run

EVERYTHING = Dials(
    decoys=1, cancelling=True, copies="either", rotate=True, superposed=0.2, norm=True
)
SETTINGS = {
    "plain": Dials(),
    "decoys": Dials(decoys=2, cancelling=True, rotate=True),
    "either": Dials(copies="either"),
    "both": Dials(copies="both"),
    "superposed": Dials(superposed=0.3, rotate=True),
    "norm": Dials(norm=True, decoys=1),
    "noise": Dials(noise=0.01),
    "everything": EVERYTHING,
}


def drawn(program: Program, count: int, seed: int = 0) -> list[tuple[str, ...]]:
    """Some words of each length."""
    rng = np.random.default_rng(seed)
    symbols = program.vocabulary.symbols
    return [
        tuple(rng.choice(symbols, length).tolist())
        for length in range(1, program.longest + 1)
        for _ in range(count)
    ]


def tokens_of(program: Program, word: tuple[str, ...]) -> torch.Tensor:
    return torch.tensor([[BOS_ID, *(program.vocabulary.ids[symbol] for symbol in word)]])


# -- the languages --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BOUNDED)
def test_a_bounded_language_is_its_predicate(name: str) -> None:
    of, made = BOUNDED[name], language(name)
    assert isinstance(made, BoundedLanguage)
    for length in (1, 2, 3, 5):
        for word in product(of.symbols, repeat=length):
            assert made.contains(word) == of.member(word)
    assert not made.has(of.longest + 1, True)
    assert name.endswith(f"-{of.longest}")
    assert of.rule in made.rule
    sample = made.sample(np.random.default_rng(0), 50, range(1, of.longest + 1))
    rows = zip(sample.words.ids, sample.words.lengths, sample.labels, strict=True)
    assert all(of.member(made.vocabulary.decode(ids[:n])) == label for ids, n, label in rows)


# -- the programs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_says_the_truth(name: str) -> None:
    program, member = PROGRAMS[name](), BOUNDED[name].member
    words = [w for n in (1, 2, 3, 4) for w in product(program.vocabulary.symbols, repeat=n)]
    for word in [*words, *drawn(program, 20)]:
        assert program.says(word) == member(word), word


def test_each_language_has_its_program() -> None:
    assert list(PROGRAMS) == list(BOUNDED)
    assert len(PROGRAMS) == 12


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_network_computes_every_variable_of_the_program(name: str) -> None:
    """The checked trace: each variable stands in its own dimensions, where and when it should."""
    program = PROGRAMS[name]()
    model, planned = compiled(program)
    for word in drawn(program, 2):
        traced, last = program.trace(word), len(word)
        _, cache = model.run_with_cache(tokens_of(program, word))
        for variable, place in planned.places.items():
            layer, half = divmod(place.after - 1, 2) if place.after else (0, -1)
            point = {-1: "resid_pre", 0: "resid_mid", 1: "resid_post"}[half]
            found = cache[f"blocks.{layer}.hook_{point}"][0, :, planned.dims[variable]].numpy()
            exact = traced[variable.name]
            read = 0 if program.ahead else last
            at = slice(read, read + 1) if variable is program.verdict else slice(0, last + 1)
            np.testing.assert_allclose(found[at], exact[at], atol=2e-5, err_msg=variable.name)


def test_nothing_is_written_twice_or_too_early() -> None:
    for make in PROGRAMS.values():
        planned = _plan(make())
        dims = [d for each in planned.dims.values() for d in range(each.start, each.stop)]
        assert len(dims) == len(set(dims))
        for variable, place in planned.places.items():
            needed = 2 * place.layer + (0 if isinstance(variable, Select) else 1)
            assert all(planned.places[each].after <= needed for each in variable.reads)


# -- the dials ------------------------------------------------------------------------------------


def made(name: str, setting: str, seed: int = 1) -> Plant:
    return plant(name, SETTINGS[setting], seed)


def assert_right_on_all_words(one: Plant) -> None:
    """By brute force, word by word of a length."""
    program, member = one.program, BOUNDED[one.program.name].member
    words = list(program.words())
    assert one.words == len(words)
    least = np.inf
    for length in range(1, program.longest + 1):
        some = [word for word in words if len(word) == length]
        tokens = torch.cat([tokens_of(program, word) for word in some])
        with torch.no_grad():
            logits = one.model(tokens)[:, 0 if program.ahead else length, END_ID].numpy()
        assert ((logits > 0) == [member(word) for word in some]).all()
        least = min(least, np.abs(logits).min())
    assert least == pytest.approx(one.margin, rel=1e-3)
    assert least >= LEAST


CASES = [(name, setting) for name in PROGRAMS for setting in SETTINGS]
SHORT = [case for case in CASES if case[0] in ("anbn-10", "modular-10")]
SHORT.remove(("modular-10", "noise"))  # the longest; the noise of anbn-10 is found as well


@pytest.mark.parametrize(("name", "setting"), SHORT)
def test_a_plant_is_right_on_all_words(name: str, setting: str) -> None:
    assert_right_on_all_words(made(name, setting))


@pytest.mark.torture
@pytest.mark.parametrize(("name", "setting"), sorted({*CASES} - {*SHORT}))
def test_every_plant_is_right_on_all_words(name: str, setting: str) -> None:
    assert_right_on_all_words(made(name, setting))


def test_a_wrong_network_is_not_taken_for_right() -> None:
    one = made("majority-10", "plain")
    words = _AllWords.of(one.program)
    assert words.margin(one.model) == pytest.approx(one.margin)
    assert words.count == 2 + 4 + 8 + 16 + 32 + 64 + 128 + 256 + 512 + 1024
    with torch.no_grad():
        one.model.b_U[END_ID] += 4.5  # all words are taken for members
    assert words.margin(one.model) < 0


def without(one: Plant, heads: list[tuple[int, int]], tokens: torch.Tensor) -> torch.Tensor:
    """END's logits with the outputs of some heads set to zero."""

    def zero(layer: int) -> tuple[str, object]:
        def hook(z: torch.Tensor, hook: object) -> torch.Tensor:
            z = z.clone()
            z[:, :, [head for where, head in heads if where == layer]] = 0
            return z

        return f"blocks.{layer}.attn.hook_z", hook

    hooks = [zero(layer) for layer in {layer for layer, _ in heads}]
    with torch.no_grad():
        return one.model.run_with_hooks(tokens, fwd_hooks=hooks)[:, -1, END_ID]


def test_idle_heads_are_busy_and_change_nothing() -> None:
    one = made("anbn-10", "decoys")
    words = ("aaabbb", "aababb", "ababab", "aaaabb", "abbbbb", "bbbaaa")
    tokens = torch.cat([tokens_of(one.program, tuple(word)) for word in words])
    before = without(one, [(0, -1)][:0], tokens)
    assert len(one.idle_heads) == 3 * one.model.config.n_heads - 3
    torch.testing.assert_close(without(one, one.idle_heads, tokens), before, atol=1e-4, rtol=0)
    _, cache = one.model.run_with_cache(tokens)
    for layer, head in one.idle_heads:
        assert cache[f"blocks.{layer}.attn.hook_z"][:, :, head].abs().max() > 0.05
    # One of a pair that cancels does change something.
    layer, head = min(one.cancelling)
    assert (without(one, [(layer, head)], tokens) - before).abs().max() > 0.01
    # And so does each head of the program.
    for part in sorted(one.plan.heads):
        assert (without(one, [part], tokens) - before).abs().max() > 1


def test_one_copy_is_enough_or_both_are_needed() -> None:
    word = tuple("aaabb")  # a member of majority
    for copies, still in (("either", True), ("both", False)):
        one = plant("majority-10", Dials(copies=copies))
        tokens = tokens_of(one.program, word)
        assert len(one.plan.heads) == 2
        for part in one.plan.heads:
            assert bool(without(one, [part], tokens)[0] > 0) is still


def test_a_superposed_plant_has_fewer_dimensions_than_values() -> None:
    one = made("anbn-10", "superposed")
    features = sum(variable.size for variable in one.program.variables)
    assert one.dials.superposed > 0
    assert one.model.config.d_model < features
    directions = torch.cat(list(one.directions.values()))
    torch.testing.assert_close(directions.norm(dim=1), torch.ones(features))
    shared = (directions @ directions.T).fill_diagonal_(0).abs()
    assert shared.max() > 0.1
    # Numbers lie at right angles to everything: thresholds are set on them.
    number = one.directions["lead"]
    assert (directions @ number.T).abs().sum() == pytest.approx(1, abs=1e-5)


def test_a_rotation_leaves_no_variable_a_dimension_for_itself() -> None:
    plain, turned = made("anbn-10", "plain"), plant("anbn-10", Dials(rotate=True), 1)
    for name, directions in plain.directions.items():
        assert (directions.abs() > 0.99).any(dim=1).all(), name
        assert (turned.directions[name].abs() < 0.9).all(), name


def test_a_norm_matters() -> None:
    """The same numbers are read smaller where more stands in the stream."""
    one = plant("anbn-10", Dials(norm=True))
    _, cache = one.model.run_with_cache(tokens_of(one.program, tuple("aabb")))
    scale = cache["blocks.2.ln2.hook_scale"][0, :, 0]
    assert float(scale.max() / scale.min()) > 1.0005
    assert one.model.config.norm == "rms"


def test_another_seed_is_another_network() -> None:
    one, again, other = (plant("anbn-10", SETTINGS["decoys"], seed) for seed in (3, 3, 4))
    weights = [dict(each.model.named_parameters()) for each in (one, again, other)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert not torch.equal(weights[0]["embed.weight"], weights[2]["embed.weight"])
    places = {frozenset(plant("anbn-10", Dials(decoys=3), seed).plan.heads) for seed in range(4)}
    assert len(places) > 2


def test_without_dials_every_feature_has_its_dimension() -> None:
    program = PROGRAMS["depth-10"]()
    stream = stream_of(10, program, _plan(program), Dials(), torch.Generator())
    assert torch.equal(stream.write, torch.eye(10, dtype=torch.float64))
    torch.testing.assert_close(stream.read, torch.eye(10, dtype=torch.float64))


# -- on disk, and from the command line -----------------------------------------------------------


def test_a_plant_is_an_ordinary_run_with_its_plan(tmp_path: Path) -> None:
    one = made("anbn-10", "decoys")
    run = write(one, tmp_path / "planted")
    again = Run(run.path)
    assert again.record["status"] == "finished"
    assert again.language.name == "anbn-10"
    tokens = tokens_of(one.program, tuple("aabb"))
    with torch.no_grad():
        torch.testing.assert_close(again.model()(tokens), one.model(tokens))
    told = json.loads((run.path / PLAN).read_text())
    assert told["words tried"] == 2046
    assert {*told["heads"]}.isdisjoint(told["idle heads"])
    assert len(told["heads"]) == 3
    assert {*told["cancelling heads"]} <= {*told["idle heads"]}
    lead = next(v for v in told["variables"] if v["name"] == "lead")
    assert lead["made by"] in told["heads"]
    assert [lead["made by"], "L0 mlp"] in told["edges"]
    assert np.linalg.norm(lead["directions"]) == pytest.approx(1, abs=1e-5)
    with pytest.raises(UserError, match="exists already"):
        write(one, run.path)


def test_a_plant_that_is_interrupted_leaves_nothing_to_train(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = made("anbn-10", "decoys")
    written: list[Path] = []

    def failing(path: Path, *rest: Any) -> None:
        written.append(path)
        if path.name == WEIGHTS:
            raise OSError(28, "No space left on device")
        whole(path, *rest)

    whole = files._write
    monkeypatch.setattr(files, "_write", failing)
    with pytest.raises(UserError, match="cannot write"):
        write(one, tmp_path / "runs" / "planted")
    assert {path.name for path in written} >= {PLAN, WEIGHTS}
    assert not (tmp_path / "runs").exists()
    monkeypatch.undo()
    # One that an earlier version left half made is not trained.
    run = write(one, tmp_path / "half")
    shutil.rmtree(run.checkpoints)
    run.update(status="training")
    assert main(["resume", str(run.path)]) == 2
    assert "was planted, not trained: remove it, and plant it again" in capsys.readouterr().err
    assert not run.checkpoints.exists()


def test_lab_plant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["plant", "majority-10", "--decoys", "1", "--rotate", "--out", str(tmp_path)]
    assert main(command) == 0
    told = capsys.readouterr().out
    assert "Right on all 2,046 words of up to 10 symbols" in told
    run = tmp_path / "majority-10-plant-decoys-1-rotate-s0"
    assert main(["predict", str(run), "a a b"]) == 0
    assert "in the language" in capsys.readouterr().out
    assert main(command) == 2
    assert "exists already" in capsys.readouterr().err
    assert main([*command, "--seed", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["program"] == "majority-10"
    assert main(["plant"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in BOUNDED)


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["majorty-10"], "did you mean majority-10"),
        (["rules"], "write `lab recover rules`"),
        (["anbn-10", "--noise", "2"], "--noise is 2.0: it must be at most 1"),
        (["anbn-10", "--superposed", "-1"], "--superposed is -1.0: it must be at least 0"),
        (["anbn-10", "--decoys", "100"], "--decoys is 100: it must be at most 64"),
        (["anbn-10", "--seed", "-1"], "--seed is -1"),
    ],
)
def test_a_mistake_is_one_line(
    words: list[str], fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plant", *words, "--out", str(tmp_path / "none")]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert fault in line
    assert not (tmp_path / "none").exists()
