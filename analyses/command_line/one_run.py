"""Commands about one run: judge it, ask it, break it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pandas as pd

from analyses.answers import answer
from analyses.close_ups.broken import (
    balanced,
    removal_of,
    right_without,
    said_without,
    sentence,
)
from analyses.command_line.arguments import Analyse
from analyses.console import OUT, print_json, progress_bar, shown, table_of, titled
from analyses.options.commands import Break, Evaluate, Hooks, Predict, Size
from analyses.options.dictionaries import NAME as DICTIONARIES
from analyses.options.dictionaries import Dictionary
from analyses.options.influence import NAME as INFLUENCE
from analyses.options.influence import Influence
from analyses.options.questions import Accuracy
from analyses.questions import accuracy
from analyses.questions.dictionaries import asked as of_dictionaries
from analyses.questions.influence import asked as of_influence
from analyses.questions.influence import listed
from analyses.questions.influence.drawn import side_by_side
from analyses.registry import known, registered
from analyses.rules.printed import printed_verdicts
from analyses.rules.printed import summary as printed_summary
from analyses.script import answered, as_json, ask, where
from analyses.words import given
from models.base import hook_table
from models.errors import UserError
from models.languages import FormalLanguage, Transduction
from models.runs.run import Run
from models.sizes import in_words as total
from models.sizes import parts_of
from models.training.evaluation import predict as predict_word

ENDED = "if it ended here"
"""What a network of verdicts says of each beginning of a word."""
SHOWN = 12
"""Lines of a list that are printed; --csv prints all."""


def evaluate(options: Evaluate) -> None:
    """A curve by length."""
    run = Run(options.run, options.step)
    asked = Accuracy(options.max_n, options.lengths, options.count, options.seed, options.all_words)
    with progress_bar(run.name) as report:
        result, _ = answer(run, "accuracy", asked, report, options.again)
    printed = printed_verdicts(run)
    content = accuracy.as_json(run, result)
    if printed is not None:
        content["printed_lines"] = printed.to_dict("records")
    trained = result.table[result.table["model"] == "trained"]
    if shown(options, trained.drop(columns="model"), content):
        return
    OUT.print(table_of(trained.drop(columns="model")))
    if printed is not None:
        OUT.print(table_of(printed, printed_summary(printed)))
    if (every := accuracy.every_word(result)) is not None:
        OUT.print(table_of(every, "all words, length by length"))
    OUT.print(result.sentence)


def predict(options: Predict) -> None:
    """What may follow each symbol; in or out: as far as the network was taught it."""
    run = Run(options.run)
    model, taught = run.model(), run.objective
    word = run.language.vocabulary.parse(options.word)
    follow, is_in = predict_word(model, word, taught)
    accepted = is_in if taught.needed(word) else None
    said = {True: "in the language", False: "not in the language", None: ""}[accepted]
    if taught.verdict_alone:  # of each beginning, too, it was taught the verdict and no more
        ends = [bool(may) for may in follow]
        steps = [{"symbol": s, "accepted": end} for s, end in zip(word, ends, strict=True)]
        if shown(options, pd.DataFrame(steps), {"accepted": accepted, "steps": steps}):
            return
        told = {"symbol": word, ENDED: ["in" if end else "not in" for end in ends]}
        OUT.print(table_of(pd.DataFrame(told)))
        OUT.print(said)
        return
    steps = [{"symbol": s, "next": n} for s, n in zip(word, follow, strict=True)]
    table = pd.DataFrame({"symbol": word, "next": [" ".join(may) for may in follow]})
    if shown(options, table, {"accepted": accepted, "steps": steps}):
        return
    rows = []
    for index, (symbol, may) in enumerate(zip(word, follow, strict=True)):
        row = {"symbol": symbol, taught.asks: " ".join(may) or "nothing"}
        if isinstance(run.language, FormalLanguage):
            truth = taught.true_tokens(run.language, word, index + 1)
            row["truth"] = "right" if truth == set(may) else " ".join(sorted(truth)) or "nothing"
        rows.append(row)
    if rows:
        OUT.print(table_of(pd.DataFrame(rows)))
    if said:
        OUT.print(said)


def break_it(options: Break) -> None:
    """What is still right without some heads, MLPs and edges."""
    run = Run(options.run, options.step)
    model = run.model()
    removal = removal_of(model, run, options.off, options.ablation)
    table = right_without(model, run, removal)
    content: dict[str, Any] = {"sentence": sentence(table), "rows": table.to_dict("records")}
    if options.word is not None:
        said = said_without(model, run, removal, given(run.language, options.word, ()))
        content["word"] = said.to_dict("records")
    if shown(options, table, content):
        return
    if options.word is not None:
        wide = said.pivot(index=["position", "place", "token"], columns="run", values="probability")
        OUT.print(table_of(wide.reset_index().drop(columns="position"), options.word))
    OUT.print(table_of(balanced(table), "share of right verdicts, members and others half each"))
    OUT.print(content["sentence"])


def analyse(asked: Analyse) -> None:
    """Ask a run one question, or all."""
    run = Run(asked.run, asked.how.step)
    if asked.name is not None:
        ask(run, asked.name, asked.options, asked.how)
        return
    found: dict[str, Any] = {}
    refused: dict[str, str] = {}
    names = known() if isinstance(run.language, Transduction) else registered()
    for each in names:
        try:
            if asked.how.json:
                found[each] = as_json(answered(run, each, None, asked.how)[0])
            else:
                ask(run, each, None, asked.how)
        except UserError as error:
            refused[each] = str(error)
            if not asked.how.json:
                OUT.print(titled(each, f": not here: {error}"))
    if len(refused) == len(names):
        raise UserError(f"{run.path} answers no question: {next(iter(refused.values()))}")
    if asked.how.json:
        notes = {name: {"not here": why} for name, why in refused.items()}
        print_json(found | notes)


def dictionary(options: Dictionary) -> None:
    """Sparse dictionaries of one site, scored against the truth, or their latents one by one."""
    run = Run(options.run, options.step)
    with progress_bar(run.name) as report:
        found, known = of_dictionaries.dictionaries(run, options, report)
    latents = pd.DataFrame(found.findings["features"])
    if shown(options, latents if options.features else found.table, as_json(found)):
        return
    if options.features:
        OUT.print(table_of(latents))
    else:
        for title, part in of_dictionaries.side_by_side(found.table).items():
            OUT.print(table_of(part, title))
    OUT.print(found.sentence + (" (kept from before; --again answers afresh)" if known else ""))
    where(found, DICTIONARIES)


def influence(options: Influence) -> None:
    """Which training lines did it: methods beside trainings without lines, or a list of lines."""
    run = Run(options.run, options.step)
    if options.word is not None or options.suspects:
        of = listed.suspects if options.suspects else listed.for_word
        with progress_bar(run.name) as report:
            lines = of(run, options, report)[options.method]
        if shown(options, lines):
            return
        OUT.print(table_of(lines.head(SHOWN), "the first lines"))
        if not options.suspects:
            OUT.print(table_of(lines.tail(SHOWN), "the last lines"))
        return
    with progress_bar(run.name) as report:
        found, known = of_influence.influence(run, options, report)
    if shown(options, found.table, as_json(found)):
        return
    for title, part in side_by_side(found.table).items():
        OUT.print(table_of(part, title))
    OUT.print(found.sentence + (" (kept from before; --again answers afresh)" if known else ""))
    where(found, INFLUENCE)


def size(options: Size) -> None:
    """The weights of a model of any shape, and what its attention holds."""
    parts = parts_of(options.model, options.tokens)
    said = total(parts, options.model, options.positions)
    rows = [asdict(part) for part in parts]
    if shown(options, pd.DataFrame(rows), {"parts": rows, "answer": said}):
        return
    OUT.print(table_of(pd.DataFrame(rows)))
    OUT.print(said)


def hooks(options: Hooks) -> None:
    """The hook table of a run's model."""
    config = Run(options.run).config.model
    rows = [
        {"name": row.name, "shape": " ".join(row.shape), "meaning": row.meaning}
        for row in hook_table(config)
    ]
    table = pd.DataFrame(rows)
    if shown(options, table):
        return
    OUT.print(table_of(table))
    if not config.family.tabular:
        last, first = config.n_layers - 1, config.encoder_layers
        sides = f"{{encoder}} is 0 to {first - 1}, {{decoder}} {first} to {last}"
        OUT.print(sides if config.family.two_sided else f"{{layer}} is 0 to {last}")
