"""Commands about one run: judge it, ask it, let it make words."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analyses.answers import answer
from analyses.claims import told
from analyses.command_line.arguments import Analyse
from analyses.console import OUT, as_rows, print_json, progress_bar, shown, table_of, titled
from analyses.needs import lack, require
from analyses.options.behaviour import Accuracy
from analyses.options.commands import Evaluate, Generate, Predict
from analyses.questions.behaviour import accuracy
from analyses.questions.behaviour.generated import claims, decoders, generator, judged
from analyses.registry import usual
from analyses.rules.printed import printed_verdicts
from analyses.rules.printed import summary as printed_summary
from analyses.script import answered, as_json, ask
from models.decoding.choice import Choice
from models.decoding.limits import LIMITS
from models.errors import UserError
from models.languages import FormalLanguage
from models.runs.run import Run
from models.training.evaluation import predict as predict_word

ENDED = "if it ended here"
"""The column of the verdicts on each beginning of a word."""
SHOWN = 12
"""Lines of a list that are printed; --csv prints all."""


def evaluate(options: Evaluate) -> None:
    """A curve by length."""
    run = Run(options.run, options.step)
    query = Accuracy(options.max_n, options.lengths, options.count, options.seed, options.all_words)
    with progress_bar(run.name) as report:
        result, _ = answer(run, "accuracy", query, report, options.again)
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
    """The tokens that may follow each symbol, and in or out, as far as the network learned them."""
    run = Run(options.run)
    model, taught = run.model(), run.objective
    word = run.language.vocabulary.parse(options.word)
    if not (word or taught.needed(word)):
        raise UserError(
            f"the word is empty, and {run.name} was taught {taught.taught}: give a symbol"
        )
    follow, is_in = predict_word(model, word, taught)
    accepted = is_in if taught.needed(word) else None
    sides = ("not in the language", "in the language")
    if not run.language.knows_others:
        sides = ("some symbol does not follow", "each symbol may follow")
    verdict = "" if accepted is None else sides[accepted]
    if taught.verdict_alone:  # of each beginning, too, it was taught the verdict and no more
        ends = [bool(may) for may in follow]
        steps = [{"symbol": s, "accepted": end} for s, end in zip(word, ends, strict=True)]
        if shown(options, pd.DataFrame(steps), {"accepted": accepted, "steps": steps}):
            return
        columns = {"symbol": word, ENDED: ["in" if end else "not in" for end in ends]}
        OUT.print(table_of(pd.DataFrame(columns)))
        OUT.print(verdict)
        return
    places = taught.taught_after(word)
    allowed = [may if at in places else None for at, may in enumerate(follow, 1)]
    steps = [{"symbol": s, "next": may} for s, may in zip(word, allowed, strict=True)]
    table = pd.DataFrame({"symbol": word, "next": [" ".join(may or ()) for may in allowed]})
    if shown(options, table, {"accepted": accepted, "steps": steps}):
        return
    rows = []
    for index, (symbol, may) in enumerate(zip(word, allowed, strict=True)):
        row = {"symbol": symbol, taught.asks: "not taught"}
        if may is not None:
            row[taught.asks] = " ".join(may) or "nothing"
        if may is not None and isinstance(run.language, FormalLanguage):
            truth = taught.true_tokens(run.language, word, index + 1)
            row["truth"] = "right" if truth == set(may) else " ".join(sorted(truth)) or "nothing"
        rows.append(row)
    if rows:
        OUT.print(table_of(pd.DataFrame(rows)))
    if verdict:
        OUT.print(verdict)


def analyse(command: Analyse) -> None:
    """Ask a run one question, or all."""
    run = Run(command.run, command.how.step)
    if command.name is not None:
        ask(run, command.name, command.options, command.how)
        return
    answers: dict[str, Any] = {}
    refused: dict[str, str] = {}
    names = usual()
    names += [] if lack(run, ["alignment"]) else ["alignment"]
    names += ["perplexity"] if lack(run, ["others"]) else []
    for name in names:
        try:
            if command.how.json:
                answers[name] = as_json(answered(run, name, None, command.how)[0])
            else:
                ask(run, name, None, command.how)
        except UserError as error:
            refused[name] = str(error)
            if not command.how.json:
                OUT.print(titled(name, f": not here: {error}"))
    if len(refused) == len(names):
        raise UserError(f"{run.path} answers no question: {next(iter(refused.values()))}")
    if command.how.json:
        notes = {name: {"not here": why} for name, why in refused.items()}
        print_json(answers | notes)


def generate(options: Generate) -> None:
    """Words that the model makes, or a table of decoders."""
    run = Run(options.run, options.step)
    prompt = run.language.vocabulary.parse(options.prompt)
    if options.decoders:
        require(run, "others")
        count = options.count or 200
        with progress_bar("decoders") as report:
            table = decoders(run, count, options.longest, options.seed, prompt, report)
        sentence = told(claims(table), None)
        if not shown(options, table, {"decoders": as_rows(table), "answer": sentence}):
            OUT.print(table_of(table.drop(columns=["kind", "words", "ended", "computed"])))
            OUT.print(sentence)
        return
    choice = Choice(**{name: getattr(options, name) for name in LIMITS})
    maker = generator(run, options.longest, prompt)
    count = options.count or 10
    if options.all_words:
        result = maker.exhaustive(count, options.by_length)
    elif options.beam:
        result = maker.beam(options.beam, options.by_length)
    else:
        result = maker.sample(count, choice, options.seed)
    table = judged(run, result.words[:count])
    if shown(options, table):
        return
    OUT.print(table_of(table))
    name, what = (
        ("is_line", "lines of the file")
        if lack(run, ["others"])
        else ("in_language", "in the language")
    )
    right = int((table["ended"] & table[name]).sum())
    OUT.print(f"{right} of {len(table)} ended and are {what}; {result.calls} calls.")
