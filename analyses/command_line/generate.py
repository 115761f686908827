"""Words that a network makes by itself."""

from __future__ import annotations

from analyses.claims import told
from analyses.console import OUT, as_rows, progress_bar, shown, table_of
from analyses.options.commands import Generate
from analyses.questions.behaviour.generated import claims, decoders, generator, judged
from models.decoding.choice import Choice
from models.runs.run import Run


def generate(options: Generate) -> None:
    """Words that the model makes, or a table of decoders."""
    run = Run(options.run, options.step)
    prompt = run.language.vocabulary.parse(options.prompt)
    if options.decoders:
        count = options.count or 200
        with progress_bar("decoders") as report:
            table = decoders(run, count, options.longest, options.seed, prompt, report)
        sentence = told(claims(table), None)
        if not shown(options, table, {"decoders": as_rows(table), "answer": sentence}):
            OUT.print(table_of(table.drop(columns=["kind", "words", "ended", "computed"])))
            OUT.print(sentence)
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
        result = maker.exhaustive(count, options.by_length)
    elif options.beam:
        result = maker.beam(options.beam, options.by_length)
    else:
        result = maker.sample(count, choice, options.seed)
    table = judged(run, result.words[:count])
    if shown(options, table):
        return
    OUT.print(table_of(table))
    right = int((table["ended"] & table["in_language"]).sum())
    OUT.print(f"{right} of {len(table)} ended and are in the language; {result.calls} calls.")
