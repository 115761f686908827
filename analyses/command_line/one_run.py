"""Commands about one run: train it, judge it, ask it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pandas as pd

from analyses.answers import answer
from analyses.close_ups import tokens as of_tokens
from analyses.close_ups.broken import (
    balanced,
    removal_of,
    right_without,
    said_without,
    sentence,
)
from analyses.close_ups.grammar import dependencies as depends
from analyses.close_ups.grammar import depths as by_depth
from analyses.close_ups.grammar import looks as attends
from analyses.close_ups.grammar import perplexity as distribution
from analyses.close_ups.grammar import senses as of_forms
from analyses.close_ups.grammar import syntax as trees
from analyses.close_ups.grammar import vectors as of_words
from analyses.close_ups.grammar.generated import decoders, generator, in_words, judged
from analyses.close_ups.pairs import edited as of_steps
from analyses.close_ups.pairs import in_context as of_prompts
from analyses.close_ups.pairs import induction as of_heads
from analyses.close_ups.pairs import targets as of_pairs
from analyses.close_ups.sentences import vectors as whole
from analyses.close_ups.truth import reader_of, rule_in_words
from analyses.command_line.arguments import (
    Analyse,
    Break,
    Evaluate,
    Finetune,
    Hooks,
    Languages,
    Predict,
    Resume,
    Size,
    Train,
    productions,
)
from analyses.console import ERR, OUT, progress_bar, shown, table_of, titled
from analyses.jobs.trained import finish
from analyses.options.live import (
    Dependencies,
    Depths,
    Generate,
    InContext,
    Looks,
    Perplexity,
    Senses,
    Sentences,
    Steps,
    Syntax,
    Targets,
    Tokens,
    Vectors,
)
from analyses.options.questions import Accuracy
from analyses.options.shared import Shows
from analyses.questions import accuracy
from analyses.registry import known, registered
from analyses.rules.printed import printed_verdicts
from analyses.rules.printed import summary as printed_summary
from analyses.script import answered, as_json, ask
from analyses.words import given
from models.base import hook_table
from models.decoding.choice import Choice
from models.errors import UserError
from models.languages import LANGUAGES, FormalLanguage, Transduction, language
from models.runs.files import locked
from models.runs.learnt import corpus_of
from models.runs.run import Run, run_name
from models.sizes import in_words as total
from models.sizes import parts_of
from models.training.evaluation import predict as predict_word
from models.training.recipes import recipes_of
from models.training.trainer import choose_device
from models.training.writer import validation_sample


def languages(options: Languages) -> None:
    """What can be trained, with its type in the Chomsky hierarchy, an example and a near miss."""
    if options.name or options.grammar:
        one_language(options)
        return
    rows = []
    for name in LANGUAGES:
        known = language(name)
        missed = known.near_miss_example() if isinstance(known, FormalLanguage) else None
        row: dict[str, str | None] = {
            "name": name,
            "type": known.chomsky,
            "symbols": " ".join(known.vocabulary.symbols),
            "example": " ".join(known.example()),
            "near miss": " ".join(missed) if missed else None,
            "recipes": " ".join(recipes_of(name)),
        }
        rows.append(row)
    table = pd.DataFrame(rows)
    if shown(options, table):
        return
    OUT.print(table_of(table.drop(columns="recipes")))
    counting = [name for name in LANGUAGES if "counting" in recipes_of(name)]
    OUT.print(f"--recipe plain is the default; {' and '.join(counting)} have counting too.")


def one_language(options: Languages) -> None:
    """A language: its machine, its production rules, and what a reader keeps along a word."""
    known = language(options.name or "mine", grammar=productions(options.grammar))
    if not isinstance(known, FormalLanguage):
        raise UserError(f"{known.name} has no rules: it is a corpus")
    word = known.vocabulary.parse(options.word) if options.word else known.example()
    table = reader_of(known, word)
    if shown(options, table):
        return
    rule = rule_in_words(known)
    OUT.print(f"{known.name} is {known.chomsky}. It is read by {known.machine}.")
    if rule:
        OUT.print(f"A word is in it if it {rule}.")
    if known.productions:
        OUT.print(
            "Production rules, from S:", *(f"  {each}" for each in known.productions), sep="\n"
        )
    is_in = "is" if known.contains(word) else "is not"
    OUT.print(f"{' '.join(word)} {is_in} in it. After each symbol:")
    OUT.print(table_of(table))


def train(options: Train) -> None:
    """Train a language or a corpus. Whatever must be refused is refused before a folder is made."""
    config = options.config
    choose_device(options.device)
    if options.corpus is not None:
        validation_sample(corpus_of(options.corpus, config), config)
    go(Run.create(options.out / run_name(config), config, options.corpus), options.device)


def finetune(options: Finetune) -> None:
    """Train from the weights of another run."""
    config, parent = options.config, Run(options.start)
    choose_device(options.device)
    if options.corpus is not None:
        validation_sample(corpus_of(options.corpus, config), config)
    path = options.out / run_name(config)
    go(Run.create(path, config, options.corpus, parent), options.device)


def resume(options: Resume) -> None:
    """Go on with an interrupted run."""
    run = Run(options.run)
    if run.record["status"] == "finished":
        OUT.print(f"{run.path} is finished already")
        return
    go(run, options.device)


def go(run: Run, device: str) -> None:
    """Trains under a progress bar and says how it ended."""
    with progress_bar(run.name) as report:

        def progress(step: int, loss: float | None) -> None:
            what = run.name if loss is None else f"{run.name}  loss {loss:.4f}"
            report(step, run.config.steps, what)

        try:
            with locked(run.path):
                finish(run, device, progress)
        except KeyboardInterrupt:
            ERR.print(f"go on with `lab resume {run.path}`")
            raise
    record = run.record
    said = f"{run.path}: {record['steps']} steps in {record['seconds']:.0f} s"
    if "selected_step" in record:
        said += f", weights of step {record['selected_step']}"
    if last := run.evaluation():  # the file of a run that was resumed may have been removed
        exact = "" if last["exact"] is None else f"exact {last['exact']:.1%}, "
        said += f"; training window: {exact}recognition {last['recognition']:.1%}"
    OUT.print(said)


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
    """What may follow each symbol; in or out."""
    run = Run(options.run)
    model = run.model()
    word = run.language.vocabulary.parse(options.word)
    follow, accepted = predict_word(model, word, run.objective)
    steps = [{"symbol": s, "next": n} for s, n in zip(word, follow, strict=True)]
    table = pd.DataFrame({"symbol": word, "next": [" ".join(may) for may in follow]})
    if shown(options, table, {"accepted": accepted, "steps": steps}):
        return
    known = isinstance(run.language, FormalLanguage) and not run.objective.verdict_alone
    rows = []
    for index, (symbol, may) in enumerate(zip(word, follow, strict=True)):
        row = {"symbol": symbol, run.objective.asks: " ".join(may) or "nothing"}
        if known:
            truth = run.objective.true_tokens(run.language, word, index + 1)
            row["truth"] = "right" if truth == set(may) else " ".join(sorted(truth)) or "nothing"
        rows.append(row)
    if rows:
        OUT.print(table_of(pd.DataFrame(rows)))
    OUT.print("in the language" if accepted else "not in the language")


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


def generate(options: Generate) -> None:
    """Words that the model makes, or a table of decoders."""
    run = Run(options.run, options.step)
    prompt = run.language.vocabulary.parse(options.prompt)
    if options.decoders:
        count = options.count or 200
        with progress_bar("decoders") as report:
            table = decoders(run, count, options.longest, options.seed, prompt, report)
        said = " ".join(in_words(table))
        if not shown(options, table, {"decoders": as_rows(table), "answer": said}):
            OUT.print(table_of(table.drop(columns=["kind", "words", "ended", "computed"])))
            OUT.print(said)
        return
    choice = Choice(
        options.temperature,
        options.top_k,
        options.top_p,
        options.frequency_penalty,
        options.presence_penalty,
    )
    maker = generator(run, options.longest, prompt)
    count = options.count or 10
    if options.all_words:
        made = maker.exhaustive(count, options.by_length)
    elif options.beam:
        made = maker.beam(options.beam, options.by_length)
    else:
        made = maker.sample(count, choice, options.seed)
    table = judged(run, made.words[:count])
    if shown(options, table):
        return
    OUT.print(table_of(table))
    right = int((table["ended"] & table["in_language"]).sum())
    OUT.print(f"{right} of {len(table)} ended and are in the language; {made.calls} calls.")


def perplexity(options: Perplexity) -> None:
    """Excess loss over the entropy, beside controls."""
    runs = [Run(path, options.step) for path in options.runs]
    with progress_bar("perplexity") as report:
        table = distribution.perplexity(
            runs, options.by, options.count, options.deepest, options.seed, report
        )
    said = distribution.in_words(table)
    told(options, "perplexity", table, said, distribution.side_by_side(table))


def targets(options: Targets) -> None:
    """Whole targets and tokens, under teacher forcing and free running."""
    runs = [Run(path, options.step) for path in options.runs]
    with progress_bar("targets") as report:
        table = of_pairs.targets(
            runs, options.by, options.windows, options.count, options.seed, report
        )
    told(options, "targets", table, of_pairs.in_words(table), of_pairs.side_by_side(table))


def steps(options: Steps) -> None:
    """What follows a written step that was turned around."""
    runs = [Run(path, options.step) for path in options.runs]
    with progress_bar("steps") as report:
        table = of_steps.edited(runs, options.count, options.seed, report)
    told(options, "steps", table, of_steps.in_words(table))


def in_context(options: InContext) -> None:
    """Answers by the number of examples, or without each head."""
    runs = [Run(path, options.step) for path in options.runs]
    with progress_bar("in-context") as report:
        if options.by == "heads":
            table = of_heads.induction(runs, options.count, options.seed, report)
            said, brief = of_heads.in_words(table), None
        else:
            table = of_prompts.in_context(runs, options.count, options.seed, report)
            said, brief = of_prompts.in_words(table), of_prompts.side_by_side(table)
    told(options, options.by, table, said, brief)


def syntax(options: Syntax) -> None:
    """Structural probes of trees beside their controls."""
    run = Run(options.run, options.step)
    with progress_bar("syntax") as report:
        table = trees.syntax(run, options.words, options.seed, report)
    said = trees.in_words(table)
    told(options, "sites", table, said, trees.chosen(table).drop(columns="choice"))


def depths(options: Depths) -> None:
    """A curve by depth of embedding."""
    run = Run(options.run, options.step)
    with progress_bar("depths") as report:
        table = by_depth.depths(run, options.count, options.deepest, options.seed, report)
    said = by_depth.in_words(table)
    told(options, "depths", table, said)


def dependencies(options: Dependencies) -> None:
    """Dependencies with attractors between, by patching and by attention."""
    run = Run(options.run, options.step)
    symbols = run.language.vocabulary.parse(options.symbols)
    with progress_bar("dependencies") as report:
        table = depends.dependencies(run, options.count, options.seed, symbols, report)
    said = depends.in_words(table)
    told(options, "dependencies", table, said, depends.side_by_side(table))


def looks(options: Looks) -> None:
    """Attention from one kind of symbol to another, beside its effect and the truth."""
    run = Run(options.run, options.step)
    query, key = (run.language.vocabulary.parse(each) for each in (options.query, options.key))
    asked = (query, key, options.count, options.seed)
    with progress_bar("looks") as report:
        table = attends.looks(run, *asked, report)
    said = attends.in_words(table, attends.decides(run, *asked))
    told(options, "looks", table, said, table.drop(columns="choice"))


def tokens(options: Tokens) -> None:
    """The merges of a language, how they cut a word, and whether they find its words."""
    known = language(options.language)
    cutter = of_tokens.tokeniser_of(known, options.vocabulary)
    word = cutter.parse(options.word) if options.word else cutter.encode(known.example())
    made, table = of_tokens.merges(known, cutter), of_tokens.judged(known, cutter)
    said = of_tokens.in_words(known, cutter, table)
    content = {"merges": as_rows(made), "word": word, "judged": as_rows(table), "answer": said}
    if shown(options, table, content):
        return
    if len(made):
        OUT.print(table_of(made, "merges, in their order"))
    OUT.print(table_of(table, "beside pairs that are merged at random"))
    OUT.print(f"{len(word)} tokens: {' '.join(word)}")
    OUT.print(said)


def vectors(options: Vectors) -> None:
    """Analogies with known answers, beside their controls."""
    run = Run(options.run, options.step)
    asked = (options.sentences, options.dim, options.window, options.seeds, options.seed)
    with progress_bar("vectors") as report:
        table = of_words.vectors(run, *asked, report)
    said = of_words.in_words(table)
    told(options, "vectors", table, said, of_words.side_by_side(table))


def senses(options: Senses) -> None:
    """Senses of a form by layer, beside the untrained model."""
    run = Run(options.run, options.step)
    with progress_bar("senses") as report:
        table = of_forms.senses(run, options.sentences, options.seed, report)
    said = of_forms.in_words(table)
    told(options, "senses", table, said)


def sentences(options: Sentences) -> None:
    """What one vector holds of a whole word, by how it is made."""
    runs = [Run(path, options.step) for path in options.runs]
    with progress_bar("sentences") as report:
        table = whole.sentences(runs, options.words, options.seed, report)
    told(options, "sentences", table, whole.in_words(table), whole.side_by_side(table))


def told(
    options: Shows, name: str, table: pd.DataFrame, said: str, brief: pd.DataFrame | None = None
) -> None:
    """An answer as JSON, as CSV, or as a table with a sentence.

    Args:
        name: of the rows in the JSON.
        brief: what is printed in place of the table.
    """
    if not shown(options, table, {name: as_rows(table), "answer": said}):
        OUT.print(table_of(table if brief is None else brief))
        OUT.print(said)


def as_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """A table as JSON has it: null for what is missing."""
    return json.loads(table.to_json(orient="records", force_ascii=False))


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
        print(json.dumps(found | notes, ensure_ascii=False))


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
