"""Dependencies are those of the language; patching and attention by hand; planted heads."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import tiny_config, without_pictures

from analyses.answers import Answer, answer, weighed
from analyses.command_line.app import main
from analyses.options.parts import Dependencies
from analyses.questions.parts.dependencies import (
    KINDS,
    MOST_ATTRACTORS,
    QUESTION,
    ROLES,
    _dependencies,
    _Pairs,
    _prefers,
    _roles_of,
    _side_by_side,
    examples,
    pairs_of,
)
from models.errors import UserError
from models.languages import FormalLanguage
from models.runs.run import Run
from models.training.loop import train
from models.training.recipes import recipe

VERBS = ("loopt", "lopen", "slaapt", "slapen")
SINGULAR = ("hond", "kat", "leeuw", "paard", "schaap", "varken")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A language model that knows a part of the nested sentences."""
    config = replace(recipe("nested"), objective="language-model", steps=120, max_n=14)
    made = Run.create(tmp_path_factory.mktemp("dependencies") / "run", config)
    train(made, "cpu")
    return made


@pytest.fixture(scope="module")
def pairs(run: Run) -> _Pairs:
    return pairs_of(run, 12, 0, VERBS)


@pytest.fixture(scope="module")
def table(run: Run) -> pd.DataFrame:
    return _dependencies(run, Dependencies(" ".join(VERBS), count=12))


def test_the_controller_alone_decides(run: Run, pairs: _Pairs) -> None:
    known = run.language
    assert isinstance(known, FormalLanguage)
    found = examples(run, pairs)
    assert len(found) == len(found.drop_duplicates()) >= 24
    for row, each in found.iterrows():
        word = tuple(each["word"].split())
        at = int(pairs.at[row])
        assert word[at] == each["controller"] != each["other_controller"]
        changed = (*word[:at], each["other_controller"], *word[at + 1 :])
        assert each["next"] in known.next_symbols(word)
        assert each["next"] not in known.next_symbols(changed)
        assert each["next_then"] in known.next_symbols(changed)
        assert each["next_then"] not in known.next_symbols(word)
        assert len(word) - at >= 2
        assert each["next"] in VERBS
        # In these sentences it is the first noun, and its number.
        assert at == next(i for i, s in enumerate(word) if s.endswith(("d", "n", "t", "w", "k")))
        number = [symbol in SINGULAR for symbol in (each["controller"], each["other_controller"])]
        assert sorted(number) == [False, True]
        between = [
            s for s in word[at + 1 :] if s in SINGULAR or s in ("honden", "paarden", "katten")
        ]
        opposite = [s for s in between if (s in SINGULAR) != (each["controller"] in SINGULAR)]
        # Only nouns that share article and relative pronoun can stand in its place.
        said = each["attractors"].split()
        assert [
            s for s in opposite if s in ("hond", "kat", "leeuw", *("honden", "katten"), "paarden")
        ] == said


def test_of_each_number_of_attractors_there_are_as_many(pairs: _Pairs) -> None:
    counts = np.bincount(pairs.between, minlength=MOST_ATTRACTORS + 1)
    assert counts.max() <= 12
    assert (counts[:2] == 12).all()
    assert (pairs.between == np.minimum(pairs.attractors.sum(axis=1), MOST_ATTRACTORS)).all()


def test_brackets_depend_on_their_partner(tmp_path: Path) -> None:
    config = tiny_config(language="dyck2-unbounded", steps=1, max_n=12)
    made = Run.create(tmp_path / "brackets", config)
    pairs = pairs_of(made, 20, 0)
    partner = {"(": ")", "[": "]"}
    opened = 0
    for _, each in examples(made, pairs).iterrows():
        if each["controller"] in partner and each["other_controller"] in partner:
            opened += 1
            assert each["next"] == partner[each["controller"]]
            assert each["next_then"] == partner[each["other_controller"]]
    assert opened >= 10


def test_roles_part_the_word(pairs: _Pairs) -> None:
    roles = _roles_of(pairs)
    assert tuple(roles) == ROLES
    every = np.stack(list(roles.values())).sum(axis=0)
    place = np.arange(every.shape[1])
    inside = (place >= 1) & (place <= pairs.ids.lengths[:, None])
    assert (every == inside).all()
    assert (roles["controller"].argmax(axis=1) == pairs.at + 1).all()
    assert (roles["last symbol"].argmax(axis=1) == pairs.ids.lengths).all()


def test_each_value_is_the_run_by_hand(run: Run, pairs: _Pairs, table: pd.DataFrame) -> None:
    model = run.model()
    rows = table[table["model"] == "trained"].set_index(["kind", "place", "role"])
    clean, changed = (torch.as_tensor(words.tokens) for words in (pairs.ids, pairs.changed))
    metric, roles = _prefers(pairs, len(model.vocabulary)), _roles_of(pairs)
    with torch.no_grad():
        _, cache = model.run_with_cache(clean)
        yes, no = metric(model(clean)), metric(model(changed))
    each = torch.arange(len(pairs))
    last = torch.as_tensor(pairs.ids.lengths)
    with torch.no_grad():
        logits = model(clean)[each, last]
    wanted, instead = torch.as_tensor(pairs.wanted), torch.as_tensor(pairs.instead)
    assert torch.allclose(yes, logits[each, wanted] - logits[each, instead], atol=1e-5)
    for n in range(MOST_ATTRACTORS):
        right = ((yes > 0) & (no < 0)).numpy()[pairs.between == n]
        name = f"{n} attractor" if n == 1 else f"{n} attractors"
        if len(right):
            assert rows.loc[("right", name, ""), "value"] == pytest.approx(right.mean())

    def moved(hook: str, head: int | None, here: np.ndarray) -> torch.Tensor:
        """All positions of a role, one at a time."""

        def put(value: torch.Tensor, hook: object, place: tuple[object, ...]) -> torch.Tensor:
            value = value.clone()
            value[place] = cache[name][place]
            return value

        total, name = torch.zeros(len(pairs)), hook
        for position in np.flatnonzero(here.any(axis=0)).tolist():
            place = (slice(None), position) if head is None else (slice(None), position, head)
            with torch.no_grad():
                hooks = [(hook, partial(put, place=place))]
                logits = model.run_with_hooks(changed, fwd_hooks=hooks)
            total += (metric(logits) - no) * torch.as_tensor(here[:, position])
        return total

    odd = slice(1, None, 2)
    for kind, place, hook, head in (
        ("stream", "L1", "blocks.1.hook_resid_pre", None),
        ("value", "L1H2", "blocks.1.attn.hook_v", 2),
        ("value", "L0H1", "blocks.0.attn.hook_v", 1),
    ):
        for role in ("controller", "attractors"):
            by_hand = moved(hook, head, roles[role])
            share = by_hand[odd].sum() / (yes - no)[odd].sum()
            choice = by_hand[::2].sum() / (yes - no)[::2].sum()
            row = rows.loc[(kind, place, role)]
            assert row["value"] == pytest.approx(float(share), abs=1e-4)
            assert row["choice"] == pytest.approx(float(choice), abs=1e-4)
            assert row["pairs"] == len(pairs) // 2
            assert row["low"] <= row["value"] <= row["high"]
    pattern = cache["blocks.1.attn.hook_pattern"][each, 2, last].numpy()
    paid = (pattern * roles["controller"]).sum(axis=1)
    assert rows.loc[("attention", "L1H2", "controller"), "value"] == pytest.approx(
        paid[odd].mean(), abs=1e-5
    )


def test_at_the_bottom_the_controller_is_all(table: pd.DataFrame) -> None:
    """The words differ in it alone."""
    rows = table[(table["model"] == "trained") & (table["place"] == "L0")].set_index("role")
    assert rows.loc["controller", "value"] == pytest.approx(1.0, abs=1e-5)
    for role in ROLES[1:]:
        assert rows.loc[role, "value"] == pytest.approx(0.0, abs=1e-5)


def test_an_untrained_model_is_measured_by_the_trained_difference(table: pd.DataFrame) -> None:
    rows = table[(table["model"] == "untrained") & (table["kind"] == "stream")]
    assert rows["value"].abs().max() < 0.2


def test_words_and_picture(table: pd.DataFrame) -> None:
    right, reads, agrees = QUESTION.claims(Answer(table))
    own = table[(table["model"] == "trained") & (table["kind"] == "value")]
    own = own[own["role"] == "controller"]
    best = own.loc[own["choice"].idxmax()]
    assert reads.finding.startswith(f"What {best['place']} reads at the controller")
    assert (reads.value, reads.n) == (best["value"], best["pairs"])
    asked = table[(table["model"] == "trained") & (table["kind"] == "right")]
    assert right.n == asked["pairs"].sum()
    assert right.value == pytest.approx((asked["value"] * asked["pairs"]).sum() / right.n)
    for row in asked.itertuples():
        assert f"with {row.place} ({row.pairs} pairs)" in right.sentence
    assert agrees.value == table[table["kind"] == "agrees"]["value"].iloc[0]
    assert len(QUESTION.chart(Answer(table)).to_dict()["vconcat"]) == table["kind"].nunique()
    assert set(table["kind"]) == set(KINDS)
    compared = QUESTION.headline(Answer(table)).set_index(["variable", "of"])["value"]
    shares = table[table["kind"].isin(["right", "agrees"])]
    assert len(compared) == len(shares) > 0
    for row in shares.itertuples():
        assert compared[f"{KINDS[row.kind]}, {row.place}", row.model] == row.value
    wide = _side_by_side(table)
    assert wide.columns.tolist() == ["kind", "place", "value", *ROLES, "pairs"]


def test_a_model_without_heads_has_the_rest(tmp_path: Path) -> None:
    config = replace(recipe("nested"), objective="language-model", steps=1, max_n=10)
    config = replace(config, model=replace(config.model, architecture="lstm"))
    made = Run.create(tmp_path / "lstm", config)
    train(made, "cpu")
    found = _dependencies(made, Dependencies(" ".join(VERBS), count=4))
    assert set(found["kind"]) == {"right"}
    assert len(QUESTION.claims(Answer(found))) == 1


def test_what_depends_on_nothing_says_so(tmp_path: Path) -> None:
    made = Run.create(tmp_path / "run", tiny_config(steps=1))
    with pytest.raises(UserError, match="no symbol of anbn was found to depend"):
        pairs_of(made, 3, 0)
    verdict = Run.create(tmp_path / "verdict", tiny_config(steps=1, objective="verdict"))
    with pytest.raises(UserError, match="taught verdicts alone"):
        answer(verdict, "dependencies")


def test_the_command(run: Run, table: pd.DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["analyse", str(run.path), "dependencies", "--symbols"]
    with without_pictures():
        assert main([*words, " ".join(VERBS), "--count", "12", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    found = weighed(run, QUESTION, Dependencies(" ".join(VERBS), count=12), Answer(table))
    assert said["sentence"] == found.sentence
    assert found.claims == tuple(QUESTION.claims(Answer(table)))
    assert main([*words, "olifant"]) == 2
    assert "unknown symbol" in capsys.readouterr().err
