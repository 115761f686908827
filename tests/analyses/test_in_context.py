"""Answers beside Bayes: networks made by hand, and heads that are taken away by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import tiny_config, tiny_of
from scipy.stats import entropy
from torch import Tensor

from analyses.answers import Answer, answer, fresh_answer, question
from analyses.command_line.app import main
from analyses.options.behaviour import InContext as Options
from analyses.options.parts import Induction
from analyses.questions.behaviour import in_context
from analyses.questions.parts import induction
from analyses.words import WordTensors
from interp.heads.attention import attention
from models.base import LanguageModel
from models.errors import UserError
from models.languages import Words
from models.languages.pairs.in_context import InContext
from models.runs.run import Run
from models.training.loop import train


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("runs")
    config = tiny_config(language="in-context", objective="sequence-to-sequence", max_n=4)
    made = Run.create(folder / "run", config)
    train(made, "cpu")
    return made


def language_of(run: Run) -> InContext:
    assert isinstance(run.language, InContext)
    return run.language


def rows_of(table: pd.DataFrame, model: str) -> pd.DataFrame:
    return table[table["model"] == model].set_index(["rules", "query", "examples"])


@pytest.mark.parametrize("by_heart", [False, True])
def test_a_network_that_is_a_bayesian(
    by_heart: bool, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is as right as that Bayesian, no divergence from it, and some from the other one."""
    known = language_of(run)

    def answers(
        model: LanguageModel, objective: object, language: InContext, words: Words
    ) -> np.ndarray:
        said = language.posterior(words, language.trained if by_heart else language.rules)
        found = np.zeros((len(words), len(language.vocabulary)))
        found[:, [known.vocabulary.ids[label] for label in known.answers]] = np.nan_to_num(
            said, nan=0.2
        )
        return found

    monkeypatch.setattr(in_context, "_answers", answers)
    table = in_context._in_context(run, Options(count=60))
    network = rows_of(table, "trained")
    like, unlike = (in_context.BAYES, in_context.BY_HEART)[:: -1 if by_heart else 1]
    pd.testing.assert_series_equal(network["accuracy"], rows_of(table, like)["accuracy"])
    near, far = ("from_bayes", "from_trained")[:: -1 if by_heart else 1]
    np.testing.assert_allclose(network[near].dropna(), 0, atol=1e-9)
    assert network[far].max() > 0.01
    assert (rows_of(table, like)["accuracy"] != rows_of(table, unlike)["accuracy"]).any()


def test_controls_of_shown_and_of_new_queries(run: Run) -> None:
    table = in_context._in_context(run, Options(count=200))
    copying, bayes = (rows_of(table, name)["accuracy"] for name in ("copying", in_context.BAYES))
    majority = rows_of(table, "majority")["accuracy"]
    for rules in in_context.RULES:
        assert copying[rules, "shown", 3] == bayes[rules, "shown", 3] == 1.0
        assert copying[rules, "new", 3] == pytest.approx(0.2)
        # of one example the other four labels are left
        assert bayes[rules, "new", 1] == pytest.approx(0.25)
        assert majority[rules, "new", 3] == 0.0
        assert majority[rules, "shown", 1] == 1.0
    prompts = rows_of(table, "trained")["prompts"]
    for rules in in_context.RULES:
        assert prompts[rules, "shown", 2] + prompts[rules, "new", 2] == prompts[rules, "any", 2]


def test_equally_likely_answers_count_in_part() -> None:
    said = np.array([[0.5, 0.5, 0.0, 0.0], [0.2, 0.3, 0.1, 0.4], [0.1, 0.6, 0.1, 0.2]])
    assert in_context._accuracy(said, np.array([1, 1, 1])).tolist() == [0.5, 0.0, 1.0]


def test_what_the_network_says_and_how_far_it_is(run: Run) -> None:
    known, model = language_of(run), run.model()
    words = known.prompts(np.random.default_rng(0), np.array([5, 9, 11]), known.held_out)
    said = in_context._answers(model, run.objective, known, words)
    ids = [known.vocabulary.ids[label] for label in known.answers]
    posterior = known.posterior(words, known.rules)
    apart = in_context._apart(posterior, said[:, ids])
    for row, length in enumerate(words.lengths):
        tokens = torch.as_tensor(words.tokens[row : row + 1, :length])  # up to the border
        logits = model(tokens)[0, -1].detach()
        logits[[0, known.border]] = -torch.inf
        np.testing.assert_allclose(said[row], logits.softmax(0).numpy(), atol=1e-6)
        inside = said[row, ids]
        expected = entropy(posterior[row], inside / inside.sum()) - np.log(inside.sum())
        assert apart[row] == pytest.approx(expected, abs=1e-6)


def test_heads_against_a_hook_by_hand(run: Run) -> None:
    known, model = language_of(run), run.model()
    table = induction._induction(run, Induction(count=40))
    words = induction._shown_prompts(known, 4, 40, 0)
    given = WordTensors.of(words)
    true = torch.as_tensor(words.ids[:, -1])

    def right(logits: Tensor) -> Tensor:
        logits = logits[:, -2].clone()
        logits[:, [0, known.border]] = -torch.inf
        return (logits.argmax(dim=-1) == true).float()

    pattern = attention(model, given.tokens)[0]
    _, cache = model.run_with_cache(given.tokens)
    trained = table[table["model"] == "trained"].set_index("part")
    for part, row in trained.iterrows():
        layer, head = row["layer"], row["head"]
        looks = [
            sum(
                float(pattern[layer, number, head, -2, at + 2])
                for at in range(0, len(ids) - 3, 2)
                if ids[at] == ids[-3]
            )
            for number, ids in enumerate(words.ids)
        ]
        assert row["at_border"] == pytest.approx(np.mean(looks), abs=1e-6)
        name = f"blocks.{layer}.attn.hook_z"
        mean = cache[name][given.mask].mean(dim=0)[head]

        def away(z: Tensor, hook: object, head: int = head, mean: Tensor = mean) -> Tensor:
            z = z.clone()
            z[:, :, head] = mean
            return z

        with torch.no_grad():
            lost = right(model(given.tokens)) - right(
                model.run_with_hooks(given.tokens, fwd_hooks=[(name, away)])
            )
        assert row["drop"] == pytest.approx(float(lost.mean()), abs=1e-9), part
    assert (known.trace(words)["answer"][:, -1] > 0).all()


def test_ranks_find_the_head_that_is_needed() -> None:
    own = pd.DataFrame(
        {
            "model": "trained",
            "part": ["L0H0", "L0H1", "L1H0", "L1H1"],
            "induction": [0.1, 0.2, 0.3, 0.9],
            "at_border": [0.9, 0.3, 0.2, 0.1],
            "accuracy": 0.8,
            "drop": [0.0, 0.1, 0.2, 0.6],
            "low": 0.0,
            "high": 1.0,
            "prompts": 40,
        }
    )
    found = induction._ranks(own).set_index("score")
    assert found["correlation"].tolist() == pytest.approx([1.0, -1.0])
    assert found["part"].tolist() == ["L1H1", "L0H0"]
    assert found["drop"].tolist() == pytest.approx([0.6, 0.0])
    assert found["others"].tolist() == pytest.approx([0.1, 0.3])


def test_one_prompt_beside_both_bayesians(run: Run) -> None:
    word = in_context.prompt_of(run, "a 1 b 2 a")
    assert word == (*"a1b2a", ">")
    table = in_context.one_prompt(run, word).set_index(["model", "answer"])["probability"]
    assert table["Bayes"].tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert set(table.index.get_level_values(0)) == {
        "trained",
        "untrained",
        in_context.BAYES,
        in_context.BY_HEART,
    }
    assert in_context.chart_of_one(table.reset_index()).to_dict()
    for wrong in ("a 1 b 1 a", "a", "a 1"):
        with pytest.raises(UserError, match="is no prompt"):
            in_context.prompt_of(run, wrong)


@pytest.mark.parametrize("name", ["in-context", "induction"])
def test_the_commands(name: str, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    asked = question(name)
    expected = fresh_answer(run, asked, asked.options(count=8))
    words = ["analyse", str(run.path), name, "--count", "8"]
    assert main([*words, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert len(said["table"]) == len(expected.table)
    assert said["sentence"] == expected.sentence
    assert main(words) == 0
    assert expected.sentence.split(":")[0] in " ".join(capsys.readouterr().out.split())
    assert asked.chart(expected).to_dict()


def of_answers(held_out: float, by_heart: float, new: float | None) -> pd.DataFrame:
    """A table made by hand: of 100 prompts with two examples, fewer where the query is new."""
    rows = []
    for rules, query, trained, heart in (
        ("trained", "any", 1.0, 1.0), ("held-out", "any", held_out, by_heart),
        ("held-out", "new", new, 0.0),
    ):  # fmt: skip
        if trained is None:
            continue
        shares = dict.fromkeys(in_context.MODELS, 0.2) | {"trained": trained}
        for model, share in (shares | {in_context.BY_HEART: heart}).items():
            rows.append((rules, query, model, share, share - 0.1, share + 0.05))
    columns = ["rules", "query", "model", "accuracy", "low", "high"]
    table = pd.DataFrame(rows, columns=columns).assign(examples=2, prompts=100)
    table = table.assign(from_bayes=0.5, from_trained=np.nan)
    return pd.concat([table.assign(examples=1, accuracy=0.9), table])


@pytest.mark.parametrize(
    ("held_out", "by_heart", "new", "grades"),
    [
        (0.9, 0.3, 0.9, ("holds", "holds")),
        (0.9, 0.3, 0.25, ("holds", "no better than its controls")),  # it copies
        (0.9, 0.85, 0.9, ("no better than its controls", "holds")),  # rules known by heart
        (0.15, 0.0, None, ("no better than its controls",)),
    ],
)
def test_who_knows_rules_by_heart_and_who_copies_refute(
    held_out: float, by_heart: float, new: float | None, grades: tuple[str, ...]
) -> None:
    found = in_context.QUESTION.claims(Answer(of_answers(held_out, by_heart, new)))
    assert tuple(claim.grade for claim in found) == grades
    assert (found[0].value, found[0].n) == (held_out, 100)
    assert found[0].controls["who knows the trained rules alone"] == by_heart
    assert in_context.COPYING not in found[0].controls
    assert "after 2 examples" in found[0].short
    assert "By trained rules 100% [90%, 105%] are right." in found[0].notes
    assert "no trained rule fits" in found[0].sentence


def test_what_is_compared_over_seeds(run: Run) -> None:
    table = in_context._in_context(run, Options(count=8))
    compared = in_context.QUESTION.headline(Answer(table)).set_index(["variable", "of"])["value"]
    every = table[table["query"] == "any"]
    assert len(compared) == len(every)
    for row in every.itertuples():
        named = f"{row.rules} rules, {row.examples} examples", row.model
        assert compared[named] == row.accuracy
    heads = induction._induction(run, Induction(count=8))
    lost = induction.QUESTION.headline(Answer(heads)).set_index(["variable", "of"])["value"]
    for row in induction._ranks(heads).itertuples():
        variable = f"{row.model}, highest {induction.SCORES[row.score]}"
        assert (lost[variable, "lost without it"], lost[variable, "without another"]) == (
            row.drop,
            row.others,
        )


def test_what_cannot_be_asked_says_so(tmp_path: Path) -> None:
    other = Run.create(tmp_path / "other", tiny_config())
    for name in ("in-context", "induction"):
        with pytest.raises(UserError, match="the words of anbn are no prompts"):
            answer(other, name)
    config = tiny_config(model=tiny_of("encoder-decoder"), language="in-context", max_n=2)
    sides = Run.create(tmp_path / "sides", config)
    train(sides, "cpu")
    assert len(in_context._in_context(sides, Options(count=4)))
    with pytest.raises(UserError, match="has two sides"):
        answer(sides, "induction")
