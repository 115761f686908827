"""Languages whose truth is known."""

from models.languages.corpus import LabelledCorpus
from models.languages.counting import CountingLanguage
from models.languages.language import FormalLanguage, Language, Sample, Spread, Supervision
from models.languages.registry import LANGUAGES, language, printed_lines
from models.languages.regular import RegularLanguage
from models.languages.vocabulary import BOS, BOS_ID, END, END_ID, Vocabulary, Word, Words

__all__ = [
    "BOS",
    "BOS_ID",
    "END",
    "END_ID",
    "LANGUAGES",
    "CountingLanguage",
    "FormalLanguage",
    "LabelledCorpus",
    "Language",
    "RegularLanguage",
    "Sample",
    "Spread",
    "Supervision",
    "Vocabulary",
    "Word",
    "Words",
    "language",
    "printed_lines",
]
