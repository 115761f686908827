"""Languages whose truth is known."""

from models.languages.corpus import SPLITS, Corpus, LabelledCorpus, UnlabelledCorpus
from models.languages.counting import CountingLanguage
from models.languages.dyck import DyckLanguage
from models.languages.files.lines import read_lines
from models.languages.grammars.context_free import ContextFreeLanguage
from models.languages.language import FormalLanguage, Language, Sample, Spread
from models.languages.pairs.corpus import PairCorpus
from models.languages.pairs.transduction import Transduction
from models.languages.planted import AmbiguousLanguage, PlantedLanguage
from models.languages.registry import (
    DUTCH,
    LANGUAGES,
    TABLE_1,
    corpus_name,
    language,
    printed_lines,
)
from models.languages.regular import RegularLanguage
from models.languages.shuffle import ShuffleLanguage
from models.languages.vocabulary import (
    BORDER,
    BOS,
    BOS_ID,
    END,
    END_ID,
    FIRST_SYMBOL_ID,
    Vocabulary,
    Word,
    Words,
)

__all__ = [
    "BORDER",
    "BOS",
    "BOS_ID",
    "DUTCH",
    "END",
    "END_ID",
    "FIRST_SYMBOL_ID",
    "LANGUAGES",
    "SPLITS",
    "TABLE_1",
    "AmbiguousLanguage",
    "ContextFreeLanguage",
    "Corpus",
    "CountingLanguage",
    "DyckLanguage",
    "FormalLanguage",
    "LabelledCorpus",
    "Language",
    "PairCorpus",
    "PlantedLanguage",
    "RegularLanguage",
    "Sample",
    "ShuffleLanguage",
    "Spread",
    "Transduction",
    "UnlabelledCorpus",
    "Vocabulary",
    "Word",
    "Words",
    "corpus_name",
    "language",
    "printed_lines",
    "read_lines",
]
