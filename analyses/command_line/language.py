"""Commands about what a network knows of its language: its words, phrases, tokens and vectors."""

from __future__ import annotations

from analyses.close_ups import tokens as of_tokens
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
from analyses.console import OUT, as_rows, progress_bar, shown, table_of, tell
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
from models.decoding.choice import Choice
from models.languages import language
from models.runs.run import Run


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
    tell(options, "perplexity", table, said, distribution.side_by_side(table))


def targets(options: Targets) -> None:
    """Whole targets and tokens, under teacher forcing and free running."""
    runs = [Run(path, options.step) for path in options.runs]
    with progress_bar("targets") as report:
        table = of_pairs.targets(
            runs, options.by, options.windows, options.count, options.seed, report
        )
    tell(options, "targets", table, of_pairs.in_words(table), of_pairs.side_by_side(table))


def steps(options: Steps) -> None:
    """What follows a written step that was turned around."""
    runs = [Run(path, options.step) for path in options.runs]
    with progress_bar("steps") as report:
        table = of_steps.edited(runs, options.count, options.seed, report)
    tell(options, "steps", table, of_steps.in_words(table))


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
    tell(options, options.by, table, said, brief)


def syntax(options: Syntax) -> None:
    """Structural probes of trees beside their controls."""
    run = Run(options.run, options.step)
    with progress_bar("syntax") as report:
        table = trees.syntax(run, options.words, options.seed, report)
    said = trees.in_words(table)
    tell(options, "sites", table, said, trees.chosen(table).drop(columns="choice"))


def depths(options: Depths) -> None:
    """A curve by depth of embedding."""
    run = Run(options.run, options.step)
    with progress_bar("depths") as report:
        table = by_depth.depths(run, options.count, options.deepest, options.seed, report)
    said = by_depth.in_words(table)
    tell(options, "depths", table, said)


def dependencies(options: Dependencies) -> None:
    """Dependencies with attractors between, by patching and by attention."""
    run = Run(options.run, options.step)
    symbols = run.language.vocabulary.parse(options.symbols)
    with progress_bar("dependencies") as report:
        table = depends.dependencies(run, options.count, options.seed, symbols, report)
    said = depends.in_words(table)
    tell(options, "dependencies", table, said, depends.side_by_side(table))


def looks(options: Looks) -> None:
    """Attention from one kind of symbol to another, beside its effect and the truth."""
    run = Run(options.run, options.step)
    query, key = (run.language.vocabulary.parse(each) for each in (options.query, options.key))
    asked = (query, key, options.count, options.seed)
    with progress_bar("looks") as report:
        table = attends.looks(run, *asked, report)
    said = attends.in_words(table, attends.decides(run, *asked))
    tell(options, "looks", table, said, table.drop(columns="choice"))


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
    tell(options, "vectors", table, said, of_words.side_by_side(table))


def senses(options: Senses) -> None:
    """Senses of a form by layer, beside the untrained model."""
    run = Run(options.run, options.step)
    with progress_bar("senses") as report:
        table = of_forms.senses(run, options.sentences, options.seed, report)
    said = of_forms.in_words(table)
    tell(options, "senses", table, said)


def sentences(options: Sentences) -> None:
    """What one vector holds of a whole word, by how it is made."""
    runs = [Run(path, options.step) for path in options.runs]
    with progress_bar("sentences") as report:
        table = whole.sentences(runs, options.words, options.seed, report)
    tell(options, "sentences", table, whole.in_words(table), whole.side_by_side(table))
