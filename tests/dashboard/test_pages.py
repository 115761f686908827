"""The pages of every lens on models that are no plain decoder, without a browser.

What a page shows is held against what the run and its kept answers say: that it opens is not
enough.
"""

from __future__ import annotations

import html
import io
import json
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from altair.typing import ChartType
from compared import plainly
from conftest import made_once, tiny_config, without_pictures
from drawn import read_json
from few import fewer
from parts import part
from PIL import Image
from streamlit.dataframe_util import convert_arrow_bytes_to_pandas_df
from streamlit.delta_generator import DeltaGenerator
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Button, Selectbox
from test_kinds import KINDS, SIZES, TASKS, refused

from analyses.answer_files import Record, folders_of, seal
from analyses.answers import Answer, Answers, answer, asked_with, fresh_answer, question, save
from analyses.charts.interventions import charts
from analyses.charts.leaderboard import REPLACEMENTS
from analyses.options.inside import Probing
from analyses.questions.behaviour.accuracy import every_word
from analyses.questions.inside.intervention import changed
from analyses.questions.words import leaderboard as of_run
from analyses.questions.words.explanations import on_scale
from analyses.registry import registered
from analyses.studies import leaderboard
from dashboard import selection
from dashboard.background import JOBS
from dashboard.drawing import share
from models.languages import END_ID
from models.model_config import ModelConfig
from models.runs.files import write_json
from models.runs.run import Run
from models.training.loop import train

pytestmark = pytest.mark.slow  # runs of three kinds, asked everything, before the first page

SHOW = """
from dashboard.pages import pages
pages()["{page}"].draw()
"""
PAGES = ("runs", "try", "probing", "emergence", "interventions", "heads", "circuits")
PAGES += ("patching", "explanations", "leaderboard", "discovery")


NGRAM = pytest.param("ngram", marks=pytest.mark.torture)
EVERY_KIND = pytest.mark.parametrize("runs", ["encoder", "lstm", NGRAM], indirect=True)
"""For what depends on the kind of model. All else is asked of an encoder."""


@pytest.fixture(scope="module", params=["encoder"])
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one tiny run that every question was asked of, as far as it applies."""
    kind = request.param
    model = ModelConfig(**{**SIZES, **KINDS[kind]})
    objective = "verdict" if model.sees_ahead else "next-symbols"
    config = tiny_config(model=model, objective=objective, steps=6)

    def make(folder: Path) -> None:
        run = Run.create(folder / kind, config)
        train(run, "cpu")
        options = {name: options for name, (_, options) in TASKS.items()}
        options["leaderboard"] = of_run.Options(words=4, samples=64, draws=2)
        options["probing"] = Probing(words=40)
        with without_pictures(), fewer():
            for name, own in options.items():
                if refused(run, name) is None:
                    answer(run, name, own)

    return made_once(tmp_path_factory, f"pages-{kind}", make, copy=True)


@pytest.fixture
def run(runs: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The one run of the folder, which the pages show."""
    monkeypatch.setattr(sys, "argv", ["app.py", str(runs)])
    (path,) = runs.iterdir()
    return Run(path)


@pytest.fixture
def own(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A copy of the run, which a test may change."""
    monkeypatch.setattr(sys, "argv", ["app.py", str(tmp_path)])
    return Run(Path(shutil.copytree(run.path, tmp_path / run.name)))


def opened(name: str) -> AppTest:
    return healthy(AppTest.from_string(SHOW.format(page=name), default_timeout=120).run())


def healthy(page: AppTest) -> AppTest:
    """The page without a fault, once what it asks for at once is there."""
    if any(str(button.key).startswith("stop ") for button in page.button):
        JOBS.wait()
        page.run()
    assert not page.exception
    assert all(error.value.startswith("The model says") for error in page.error)  # after 6 steps
    return page


def computed(widget: Button | AppTest) -> AppTest:
    """The page once what it has computed in the background is there."""
    page = widget.run()
    JOBS.wait()
    return healthy(page.run())


def said(page: AppTest) -> str:
    """The sentences of the page."""
    return "\n".join(plainly(element.value) for element in [*page.markdown, *page.caption])


def marked(page: AppTest) -> list[tuple[int, str]]:
    """The symbols that the word has in colour, with their places."""
    word = next(m.value for m in page.markdown if m.value.startswith("#### "))
    parts = enumerate(word.removeprefix("#### ").split())
    return [(i, part.split("**")[1]) for i, part in parts if "background" in part]


def drawn(page: AppTest, words: str) -> list[pd.DataFrame]:
    """The tables behind the pictures whose description begins so."""
    charts = [chart.proto for chart in page.get("vega_lite_chart")]
    parts = [part for chart in charts if chart.alt.startswith(words) for part in chart.datasets]
    assert parts
    return [convert_arrow_bytes_to_pandas_df(part.data.data) for part in parts]


def assert_shown(page: AppTest, words: str, result: Answer, chart: ChartType) -> None:
    """An answer's sentence, all rows of its picture, and its table."""
    summary = result.sentence
    shown = [len(table) for table in drawn(page, f"{words} {summary}")]
    assert sorted(shown) == sorted(map(len, chart.to_dict()["datasets"].values()))
    part(page, "Controls and limits")
    assert summary in [plainly(element.value) for element in page.markdown]
    assert_same(part(page, "Numbers, files, code").dataframe[-1].value, result.table)


def assert_same(shown: pd.DataFrame, expected: pd.DataFrame) -> None:
    """Equal but for the seconds that it took."""
    tables = (t.drop(columns="seconds", errors="ignore") for t in (shown, expected))
    pd.testing.assert_frame_equal(*tables, check_dtype=False)


def has_heads(run: Run) -> bool:
    return run.config.model.architecture == "transformer"


def change(run: Run, name: str, **values: object) -> None:
    """Makes a kept answer say something else."""
    folder = folders_of(run.path, name)[-1]
    record = read_json(folder / f"{name}.json") | values
    digest = seal((folder / f"{name}.parquet").read_bytes(), Record(**record))
    write_json(folder / f"{name}.json", record | {"sha256": digest})


@EVERY_KIND
@pytest.mark.sampled
@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_or_says_why_not(run: Run, name: str) -> None:
    page = opened(name)
    if name in registered():
        assert f"**{question(name).asks}**" in said(page)
    if reason := refused(run, name):
        assert f"has {reason}" in plainly(page.info[0].value)
        assert "\n" not in page.info[0].value
    else:
        assert len(page.get("vega_lite_chart"))


@EVERY_KIND
@pytest.mark.parametrize(
    ("name", "asked", "words"),
    [
        ("runs", "accuracy", "Accuracy by word length."),
        ("heads", "heads", "Accuracy lost per ablated head."),
    ],
)
def test_a_kept_answer_is_shown_whole(run: Run, name: str, asked: str, words: str) -> None:
    result = Answers(run.path, asked).latest()
    if result is None:
        assert not has_heads(run)
    else:
        page = opened(name)
        if name == "heads":
            part(page, "All heads and parts")
        assert_shown(page, words, result, question(asked).chart(result))


@EVERY_KIND
def test_home_says_what_the_run_is_and_how_it_went(run: Run) -> None:
    page, kept, metrics = opened("runs"), Answers(run.path, "accuracy").latest(), run.metrics()
    assert kept is not None
    (row,) = part(page, "All runs").dataframe[0].value.to_dict("records")
    assert (row["run"], row["language"], row["status"]) == (run.name, "anbn", "finished")
    assert row["step"] == 6
    assert row["recognition in the window"] == share(metrics[-1]["recognition"])
    reach = kept.findings["exact_to"]  # 0: not even at size 1; None: not asked of a corpus
    assert row["exact to n"] == ("-" if reach is None else str(reach))
    every = every_word(kept)
    assert every is not None
    part(page, "Every word")
    pd.testing.assert_frame_equal(page.dataframe[0].value, every, check_dtype=False)
    assert f"Every word of 1 to {len(every)} symbols was judged:" in said(page)
    example = " ".join(run.language.example())
    for fact in (run.language.chomsky, example, f"sizes 1 to {run.config.max_n}"):
        assert f"**{fact}**" in said(page)
    part(page, "Training")
    assert all({*curve["step"]} == {3, 6} for curve in drawn(page, "Loss of "))


@EVERY_KIND
def test_a_word_is_judged_beside_the_truth(run: Run) -> None:
    """The page's own line, and typed ones; the verdict is the model's where it is read."""
    page = opened("try")
    for word, truth in (("a a a a b b b b", True), ("a a b", False), ("b a", False)):
        if page.text_input[0].value != word:
            healthy(page.text_input[0].set_value(word).run())
        symbols = word.split()
        tokens = run.model().to_tokens(word)
        at = 0 if run.config.model.sees_ahead else -1
        with torch.no_grad():
            probability = float(run.model()(tokens)[0, at, END_ID].sigmoid())
        accepted = probability > 0.5
        verdict = f"The model says: **{'in' if accepted else 'not in'} the language**"
        right = "right" if accepted == truth else "wrong"
        chance = "But this network does not know its language."  # after 6 steps
        assert f"{verdict}. That is {right}. {chance}" in said(page)
        part(page, "The truth: the rule, and what decides")
        rationale = run.language.rationale(tuple(symbols)) or ()
        if rationale:
            assert marked(page) == [(i, symbols[i]) for i in rationale]
        part(page, "What may follow")
        (table,) = drawn(page, "Probability of every next token")
        ends = table[table["token"] == "<end>"].set_index("position")
        assert ends["probability"].iloc[-1] == pytest.approx(probability, abs=1e-6)
        prefixes = [symbols[: end + 1] for end in range(len(symbols))]
        assert ends["truth"].drop(0).tolist() == [*map(run.language.contains, prefixes)]
        alone = run.objective.verdict_alone  # it was taught END's logit and no other
        assert set(table["token"]) == ({"<end>"} if alone else {"<end>", "a", "b"})


def test_probing_shows_the_best_site_of_every_variable(run: Run) -> None:
    kept = Answers(run.path, "probing").latest()
    assert kept is not None
    shown = part(opened("probing"), "Best sites").dataframe[0].value.to_dict("records")
    for row, (name, best) in zip(shown, kept.findings["best"].items(), strict=True):
        expected = {"variable": name, "trained": best["score"], **best["controls"]}
        expected |= {key: best[key] for key in ("site", "metric", "mlp", "longer", "compression")}
        expected |= {f"selectivity, {m}": value for m, value in best["selectivity"].items()}
        for key, value in expected.items():
            wanted = np.nan if value is None else value  # a variable may not vary in a split
            assert row[key] == pytest.approx(wanted, nan_ok=True), key


@pytest.mark.parametrize("view", ["linear", "mlp", "1-sparse", "longer", "online code"])
def test_probing_shows_a_variable_by_every_probe(run: Run, view: str) -> None:
    kept = Answers(run.path, "probing").latest()
    assert kept is not None
    page = opened("probing")
    page.selectbox(key=f"target_of_{run.language.name}").set_value("a-b").run()
    page.button_group(key="probe").set_value(view).run()
    healthy(page)
    (drawn_table, *_) = drawn(page, "Probe scores of a-b by site.")
    method, split = ("linear", "longer") if view == "longer" else (view, "words")
    rows = kept.table
    asked = rows[(rows["probe"] == method) & (rows["split"] == split) & (rows["target"] == "a-b")]
    if asked.empty:  # a-b has one value in the few words that fit the probe: the page says so
        assert "has a single value in the words that fit this probe" in page.info[0].value
        asked = rows[(rows["probe"] == "linear") & (rows["split"] == "words")]
    rows = asked[asked["target"] == "a-b"]
    rows = rows[rows["model"].isin(set(drawn_table["model"]))]
    assert sorted(drawn_table["score"]) == pytest.approx(sorted(rows["score"]))
    assert {"trained", "untrained"} <= set(drawn_table["model"])


def test_probing_shows_one_probe_at_work(run: Run) -> None:
    page = opened("probing")
    page.selectbox(key=f"target_of_{run.language.name}").set_value("a-b").run()
    page.selectbox(key=f"site_of_{run.name}_a-b").set_value("embed").run()
    healthy(page)
    points, _ = drawn(page, "What the probe reads of a-b at embed")
    flat, *_ = drawn(page, "Activations at embed in two dimensions")
    assert len(points) == len(flat) > 4
    assert (points["value"] == flat["value"]).all()


def test_checkpoints_are_played(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[int]()

    def pause(seconds: float) -> None:
        seen.append(selection.current_run().step)

    monkeypatch.setattr(selection, "time", SimpleNamespace(sleep=pause))
    page = opened("try")
    (play,) = (each for each in page.button if each.label == "Play")
    play.click().run()
    healthy(page)
    assert seen == list(run.steps())
    assert page.select_slider(key=f"step_of_{run.name}").value == run.steps()[-1]
    assert "Play" in [each.label for each in page.button]  # it has ended


@EVERY_KIND
@pytest.mark.slow
def test_a_variable_is_changed_in_the_typed_word(run: Run) -> None:
    """What is drawn is what the model says with the variable erased, and with k added."""
    if refused(run, "interventions"):
        return
    kept, page = Answers(run.path, "interventions").latest(), opened("interventions")
    assert kept is not None
    assert kept.sentence in said(part(page, "Controls and limits"))
    figures = charts(kept)
    titles = {"interchange": "Exchanged", "steering": "Moved", "states": "Put into another state"}
    titles |= {"erasure": "Erased", "scrubbing": "Scrubbed"}
    first, *others = [titles[name] for name in figures]
    assert f"**{first}**" in said(page)
    there = [tab.label for tab in page.tabs]
    assert [title for title in titles.values() if title in there] == others
    if first != "Erased":
        part(page, "Erased")
    assert [plainly(line.value) for line in page.info] == kept.findings["refused"]
    choose = {box.label: box for box in part(page, "On this line").selectbox}
    choose["Variable"].set_value("count_b").run()
    choose["Site"].set_value("L0 resid_post").run()
    page.text_input[0].set_value("a a b").run()
    for change, k in (("erase", 0), ("add", -3)):
        box = next(box for box in page.selectbox if box.label == "Do")
        box.set_value(change).run()
        if k:
            page.slider[0].set_value(k).run()
        word = ("a", "a", "b")
        expected = changed(run.model(), run, "L0 resid_post", "count_b", change, k, word)
        (shown,) = drawn(healthy(page), "What may follow each prefix")
        assert_same(shown[expected.columns], expected)
        before, after = (rows["probability"] for _, rows in expected.groupby("run", sort=False))
        assert before.tolist() != pytest.approx(after.tolist(), abs=1e-6)


@pytest.mark.slow
def test_heads_look_at_the_typed_word(run: Run) -> None:
    if not has_heads(run):
        return
    page = opened("try")
    healthy(page.text_input[0].set_value("a b").run())
    for query, read in enumerate(("0 <bos>", "1 a", "2 b")):
        healthy(page.segmented_control[0].set_value(read).run())
        part(page, "One head on the whole line")
        every, lines, _ = drawn(page, "Where it looks")
        assert set(every["query"]) == {query}
        assert len(lines) == len(lines.drop_duplicates(["query", "key"]))
        sums = every.groupby("part")["attention"].sum()
        assert sums.tolist() == pytest.approx([1] * 4)
    healthy(page.text_input[0].set_value("a " * 41).run())
    assert not page.segmented_control


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "typed", "words"),
    [
        ("patching", "a b b b", "Patching effects by site and position."),
        ("explanations", "a a b b", "Attribution per symbol and method."),
    ],
)
def test_a_typed_word_gets_its_own_answer(run: Run, name: str, typed: str, words: str) -> None:
    page, module = opened(name), question(name)
    page.text_input[0].set_value(typed).run()
    own = {}
    if name == "patching":
        page.segmented_control[0].set_value("break").run()
        own = {"direction": "break"}
    result = fresh_answer(run, module, module.options(word=typed, **own))
    found, text, symbols = result.findings, said(healthy(page)), typed.split()
    if name == "patching":
        places = [position - 1 for position in found["changed_positions"]]
        assert "In colour: the positions at which" in text
    else:
        places = found["rationale"] or []
        assert f'"in the language": {found["probability"]:.3f}. ' in text
        scores = pd.DataFrame(found["agreement"])
        numbers = dict.fromkeys(scores.columns[4:], float)  # None where it is not defined
        part(page, "How right, and at what cost")
        assert_same(page.dataframe[0].value, scores.astype(numbers))
    assert marked(page) == [(i, symbols[i]) for i in places]
    assert_shown(page, words, result, module.chart(result))


@pytest.mark.slow
@pytest.mark.parametrize("replacement", ["data", "fixed"])
def test_hidden_symbols_become_what_was_chosen(run: Run, replacement: str) -> None:
    page, module = opened("explanations"), question("explanations")
    page.segmented_control[0].set_value(replacement).run()
    result = fresh_answer(run, module, module.options(replacement=replacement))
    shown = "Attribution per symbol and method."
    assert_shown(healthy(page), shown, result, module.chart(result))
    explained = plainly(page.segmented_control[0].help)
    for kind in REPLACEMENTS:
        assert f"**{kind}**: {of_run.replacement_in_words(kind, run.language)}" in explained


@pytest.mark.slow
def test_a_picked_line_is_explained(run: Run) -> None:
    """Members and near misses of the language itself; the choice is typed into the box."""
    page, module = opened("explanations"), question("explanations")

    def box() -> Selectbox:
        return next(box for box in healthy(page).selectbox if box.label == "or pick one")

    lines = dict(line.split(": ")[::-1] for line in box().options)
    assert set(lines.values()) == {"in", "not in"}
    assert all((lines[w] == "in") == run.language.contains(w.split()) for w in lines)
    *_, word = lines
    box().select(word).run()
    assert page.text_input[0].value == box().value == word
    result = fresh_answer(run, module, module.options(word=word))
    assert_shown(page, "Attribution per symbol and method.", result, module.chart(result))
    page.text_input[0].set_value("a b a").run()  # none of these lines
    assert box().value is None


@pytest.mark.slow
def test_methods_are_ranked_on_the_words_of_a_run(run: Run) -> None:
    """All measures of the chosen replacements; and of right or wrong verdicts alone."""
    kept, page = Answers(run.path, "leaderboard").latest(), opened("leaderboard")
    assert kept is not None
    assert kept.sentence in said(part(page, "Controls and limits"))
    assert_same(part(page, "Numbers, files, code").dataframe[-1].value, kept.table)
    page.button_group(key="replacements").set_value(["data"]).run()
    healthy(page.multiselect(key="measures").set_value(["deletion", "completeness"]).run())
    for verdicts in ("all", "right", "wrong"):
        healthy(page.button_group(key="verdicts").set_value(verdicts).run())
        rows = kept.table[kept.table["replacement"] == "data"]
        if verdicts != "all":
            rows = rows[rows["right"] == (verdicts == "right")]
        rows = on_scale(rows[rows["membership"] == "members"], "probability")
        if rows.empty:
            assert page.info[0].value.startswith("None of the members ")
            continue
        means = rows.groupby("method", sort=False)["deletion"].mean()
        table = pd.concat(drawn(page, f"{run.name}, means over words: deletion"))
        assert set(table["measure"]) <= {"deletion", "completeness"}
        assert set(table["replacement"]) == {"data"}
        numbers = table[table["measure"] == "deletion"].set_index("method")
        pd.testing.assert_series_equal(numbers["mean"].rename("deletion"), means, check_like=True)
        assert (numbers["low"] <= numbers["mean"]).all()
        defined = bool(rows["completeness"].notna().any())
        assert ("completeness" in set(table["measure"])) == defined
        assert ("Not defined here: completeness." in [i.value for i in page.info]) != defined


@pytest.mark.slow
def test_the_kept_leaderboard_is_shown_and_filtered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its claims, a language's rows, and who found the shortcut; no run is needed."""
    monkeypatch.setattr(sys, "argv", ["app.py", str(tmp_path)])
    kept = ranked()
    save(
        tmp_path / "leaderboard",
        leaderboard.NAME,
        leaderboard.QUESTION,
        kept,
        leaderboard.chart(kept),
    )
    script = SHOW.format(page="leaderboard")
    page = healthy(AppTest.from_string(script, default_timeout=120).run())
    assert all(claim in said(page) for claim in kept.findings["claims"])
    assert_same(part(page, "Numbers, files, code").dataframe[0].value, kept.table)
    page.button_group(key="language").set_value("dieren_muis").run()
    page.button_group(key="replacements").set_value(["fixed"]).run()
    healthy(page.multiselect(key="measures").set_value(["AUROC", "error"]).run())
    assert "right: 75.0%, 100.0%." in said(page)
    assert page.info[0].value == "Not defined here: error."
    table = kept.table[kept.table["replacement"] == "fixed"]
    for title, language, measure, name in (
        ("dieren_muis, transformer, means over training seeds", *("dieren_muis", "AUROC"), ""),
        ("Models told apart by the shortcut", *("dieren_muis", "shortcut found"), SHORTCUT),
    ):
        if name:
            part(page, name)
        expected = table[(table["language"] == language) & (table["measure"] == measure)]
        (rows,) = drawn(page, f"{title}: {measure} by method.")
        assert rows["method"].tolist() == ["LIME", "random"]
        for end in ("mean", "low", "high"):
            assert rows[end].tolist() == pytest.approx(expected[end].tolist())


SHORTCUT = "The planted shortcut"


def ranked() -> Answer:
    """A leaderboard of two methods."""
    keys = ["language", "replacement", "method", "measure"]
    values = {
        "AUROC": (0.9, 0.5),
        "calls": (512.0, 0.0),
        "shortcut found": (0.8, 0.5),
        "error": (0.1, np.nan),
    }
    rows = [
        (name, kind, method, measure, value - (name == "anbn") * 0.01)
        for name in ("anbn", "dieren_muis")
        for kind in REPLACEMENTS
        for measure, both in values.items()
        for method, value in zip(("LIME", "random"), both, strict=True)
        if (name, measure) not in {("anbn", "shortcut found"), ("dieren_muis", "error")}
    ]
    table = pd.DataFrame(rows, columns=[*keys, "mean"]).dropna(ignore_index=True)
    table["family"] = np.where(table["method"] == "LIME", "LIME and SHAP", "control")
    table = table.assign(low=table["mean"] - 0.1, high=table["mean"] + 0.1, seeds=2)
    table["scale"] = np.where(table["method"] == "LIME", "probability", "none")
    table = table.assign(architecture="transformer", membership="members", words=8)
    found = {"claims": ["LIME it is.", "Chance is behind."]}
    shares = {"anbn": [1.0, 1.0], "dieren_muis": [0.75, 1.0]}
    right = {name: {"transformer": values} for name, values in shares.items()}
    return Answer(table, "LIME it is.", found | {"right": right}, {"words": 8})


def test_a_site_shows_what_patching_it_does(run: Run) -> None:
    """The logits it names are those of two runs, and of one with a hook by hand."""
    page, module = opened("patching"), question("patching")
    result = module.analyse(run, module.options())
    sites = [box for box in page.selectbox if box.label == "Site"]
    if "top_site" not in result.findings:  # the words are not told apart
        assert not sites
        return
    (site,) = sites
    chosen = "L0 resid_pre at 1"
    page = healthy(site.set_value(chosen).run())
    (said_of_it,) = (m.value for m in page.markdown if f": **{chosen}**" in m.value)
    numbers = [float(number) for number in re.findall(r"-?\d+\.\d\d", said_of_it)]
    words = [result.findings["word"], result.findings["counterfactuals"][0]]
    source, target = (torch.as_tensor(run.language.vocabulary.words([w]).tokens) for w in words)
    model = run.model()
    at = int(model.verdict_positions(torch.tensor([len(words[0])])))
    with torch.no_grad():
        _, cache = model.run_with_cache(source)

        def put(x: torch.Tensor, hook: object) -> torch.Tensor:
            x = x.clone()
            x[:, 1] = cache["blocks.0.hook_resid_pre"][:, 1]
            return x

        hooks = [("blocks.0.hook_resid_pre", put)]
        runs = (model(target), model.run_with_hooks(target, fwd_hooks=hooks), model(source))
    expected = [float(logits[0, at, END_ID]) for logits in runs]
    assert numbers == pytest.approx(expected, abs=0.006)
    tables = drawn(page, f"What three runs say of the next token: {chosen} patched.")
    assert set(tables[0]["run"]) == {"patched into", "patched", "patched from"}


@EVERY_KIND
def test_discovery_says_how_far_to_trust_it(own: Run) -> None:
    kept = Answers(own.path, "discovery").latest()
    assert kept is not None
    found = {**kept.findings, "regex": "(a b)*"}  # after six steps there is seldom one
    change(own, "discovery", findings=found)
    page = opened("discovery")
    assert kept.verdict.short in said(page)
    kinds = ("", "_other_lengths", "_truth", "_truth_beyond")
    agreements = [found[f"agreement{of}"] for of in kinds if found[f"agreement{of}"] is not None]
    expected = [str(found["n_states"]), *map(share, agreements)]
    assert [metric.value for metric in page.metric] == expected
    assert page.code[0].value == "(a b)*"
    chart = question("discovery").chart(kept).to_dict()["datasets"].values()
    shown = drawn(page, f"The extracted automaton. {kept.sentence}")
    assert sorted(map(len, shown)) == sorted(map(len, chart))
    assert found["evidence"] in said(part(page, "Controls and limits"))
    assert_same(part(page, "Numbers, files, code").dataframe[-1].value, kept.table)


def test_downloads_hold_the_answer(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    files: dict[str, Any] = {}

    def keep(self: object, label: str, data: object, name: str, *_: str, **__: str) -> None:
        files[name] = data

    monkeypatch.setattr(DeltaGenerator, "download_button", keep)
    part(opened("probing"), "Numbers, files, code")
    kept = Answers(run.path, "probing").latest()
    assert kept is not None
    stem = f"{run.name}-probing-step-{run.step}"  # a file says what it is about
    written = pd.read_csv(io.BytesIO(files[f"{stem}.csv"]))
    (origin,) = set(written.pop("origin"))
    assert written.to_csv(index=False) == kept.table.to_csv(index=False)
    question_of = f"asked with: {asked_with('probing', kept.arguments)}"
    assert re.match(rf"run: {run.name}; step: {run.step}; lab: .*; question: probing; ", origin)
    assert question_of in origin
    latex = files[f"{stem}.tex"]()
    assert latex.startswith(f"% run: {run.name}; ")
    assert latex.count("\\\\\n") == len(kept.table) + 1
    assert "-0.000" not in latex
    about, weighed = json.loads(files[f"{stem}.json"]), kept.verdict
    assert about["findings"] == kept.findings
    assert (about["run"], about["step"], about["answer"]) == (run.name, run.step, kept.sentence)
    assert (about["finding"], about["grade"]) == (weighed.short, weighed.grade)
    picture = files[f"{stem}.svg"]().decode()
    assert picture.startswith("<svg")
    assert all(f">{site}<" in picture for site in set(kept.table["site"][:20]))
    (known,) = re.findall("<metadata>(.*?)</metadata>", html.unescape(picture), flags=re.DOTALL)
    assert question_of in known
    assert f"grade: {weighed.grade}; why: {weighed.why}" in known
    drawn_in = Image.open(io.BytesIO(files[f"{stem}.png"]()))
    assert drawn_in.info["Description"] == known
    page = html.unescape(files[f"{stem}.html"]().decode())
    assert f"<p><b>finding</b>: {weighed.short}</p>" in page


def test_an_answer_about_an_earlier_checkpoint_is_called_so(own: Run) -> None:
    assert not opened("probing").warning
    change(own, "probing", model_hash="another")
    assert "about another checkpoint" in opened("probing").warning[0].value


@EVERY_KIND
def test_a_page_shows_another_checkpoint(own: Run) -> None:
    if len(own.steps()) < 2:
        return  # tables that count have no steps
    first = own.steps()[0]
    then = Run(own.path, first)
    page = AppTest.from_string(SHOW.format(page="probing"), default_timeout=120)
    page.query_params[f"step_of_{own.name}"] = str(first)
    healthy(page.run())
    assert f"as it was at step {first}" in said(page)
    assert f"not been asked of step {first}" in page.info[0].value
    answer(then, "probing", TASKS["probing"][1])
    page = healthy(page.run())
    kept = Answers.of(then, "probing").latest()
    assert kept is not None
    assert kept.model_hash == then.model_hash() != own.model_hash()
    assert plainly(kept.sentence) in said(part(page, "Controls and limits"))


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("probing", "site_of_{run}_a-b", "embed"),
        ("interventions", "do_to_a-b", "add k to it"),
    ],
)
@pytest.mark.parametrize("runs", ["lstm"], indirect=True)
def test_a_link_keeps_what_was_chosen(run: Run, name: str, key: str, value: str) -> None:
    key = key.format(run=run.name)
    page = AppTest.from_string(SHOW.format(page=name), default_timeout=120)
    page.query_params["target_of_anbn"] = "a-b"
    page.query_params["part_of_interventions"] = "On this line"
    page.query_params[key] = value
    box = healthy(page.run()).selectbox(key=key)
    assert box.format_func(box.value) == value


def test_a_link_to_an_unknown_run_says_so(own: Run) -> None:
    page = AppTest.from_string(SHOW.format(page="try"), default_timeout=120)
    page.query_params["run"] = "no*such*run"
    assert "no run named no*such*run" in plainly(healthy(page.run()).warning[0].value)
    assert not opened("try").warning


def test_the_kept_answer_is_used_for_the_same_model_alone(own: Run) -> None:
    kept = Answers(own.path, "patching").latest()
    assert kept is not None
    arguments = vars(question("patching").options())
    change(own, "patching", arguments=arguments, sentence="as it was kept")
    assert "as it was kept" in said(part(opened("patching"), "Controls and limits"))
    change(own, "patching", model_hash="another")
    assert "as it was kept" not in said(part(opened("patching"), "Controls and limits"))


def test_a_question_that_was_not_asked_can_be(own: Run) -> None:
    for path in folders_of(own.path, "accuracy"):
        shutil.rmtree(path)
    page = opened("runs")
    assert "has not been asked" in page.info[0].value
    before = len(page.get("vega_lite_chart"))
    (button,) = (each for each in page.button if each.label == "Ask it now")
    computed(button.click())
    assert len(page.get("vega_lite_chart")) == before + 1
    assert Answers(own.path, "accuracy").latest() is not None


@pytest.mark.parametrize(
    ("page", "shown"),
    [("leaderboard", "explanations"), ("dictionaries", "probing"), ("emergence", None)],
)
def test_a_page_whose_question_was_not_asked_shows_what_is_there(
    own: Run, page: str, shown: str | None
) -> None:
    for name in ("leaderboard", "dictionary", "emergence"):
        shutil.rmtree(own.path / "results" / f"{name}-1", ignore_errors=True)
    unasked = opened(page)
    assert unasked.get("vega_lite_chart")
    if shown is None:
        return
    assert f"{shown.capitalize()} was asked already" in said(unasked)
    (path,) = folders_of(own.path, shown)
    shutil.rmtree(path)
    assert not opened(page).get("vega_lite_chart")
