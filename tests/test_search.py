"""The search of the built book: what a reader means comes first, and is to be seen where it leads.

Needs Chromium (on Debian: `apt install chromium`) and the packages that `make book` installs.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest
from chromium import Visit, drawn, served, wait
from pages import HTML, ROOT, build

sys.path.insert(0, str(ROOT / "book" / "_ext"))
import booksearch  # noqa: E402

# Written before the ranking was: what readers type, and the chapters (or pages) that they mean.
QUERIES = {
    "positional encoding": [9], "RoPE": [9], "mask": [8], "padding mask": [8],
    "multi-head attention": [7], "warm-up": [12], "BLEU": [13], "tokenizer": [1],
    "flash attention": [17], "beam search": [13], "label smoothing": [12], "layer norm": [10],
    "teacher forcing": [8], "causal mask": [8], "cross-attention": [8], "self-attention": [4],
    "byte pair encoding": [1], "embedding": [1], "LSTM": [2], "GRU": [2],
    "vanishing gradient": [2], "bottleneck": [2], "additive attention": [3],
    "memory network": [3], "alignment": [3], "dot product": [4, 6], "cosine similarity": [4],
    "permutation equivariance": [4], "queries keys values": [5],
    "scaled dot-product attention": [6], "sqrt(d_k)": [6], "softmax saturates": [6],
    "temperature": [6, 13], "output projection": [7], "sinusoids": [9], "relative positions": [9],
    "ALiBi": [9], "residual connection": [10], "feed-forward": [10], "pre-norm": [10],
    "batch norm": [10], "dropout": [10, 12], "shared embeddings": [11],
    "learning rate schedule": [12], "adam optimizer": [12], "checkpoint averaging": [12],
    "mixed precision": [12], "greedy decoding": [13], "kv cache": [13], "length penalty": [13],
    "attention rollout": [15], "is attention explanation": [15], "GPT": [16],
    "masked language model": [16], "perplexity": [16], "sliding window": [17], "parsing": [18],
    "all-reduce": [19], "beam_search": [13, "book/api"], "exercise": ["an exercise"],
}  # fmt: skip


@pytest.fixture(scope="module")
def address():
    build()
    with served(HTML) as address:
        yield address


RANK = """queries => queries.map(query => BookSearch.rank(query).slice(0, 4)
  .map(({entry}) => [entry.chapter || entry.address, entry.anchor, entry.head]))"""


SPELLED = "queries => queries.map(BookSearch.spelled)"
PLACES = """queries => queries.map(query => BookSearch.rank(query)[0]?.entry)
  .map(entry => [entry?.address ?? "", entry?.anchor ?? ""])"""
FIRST = "queries => queries.map(query => BookSearch.rank(query)[0]?.entry.address)"


def right(place: list, meant: list) -> bool:
    page, anchor, _ = place
    if meant == ["an exercise"]:
        return isinstance(page, int) and anchor.startswith("exercise")
    return page in meant or str(page).removesuffix(".html") in meant


def test_what_is_meant_comes_first(address, browser):
    assert len(QUERIES) == 60
    tab = Visit(browser, address).open("search.html?q=softmax")
    found = dict(zip(QUERIES, tab.evaluate(RANK, list(QUERIES)), strict=True))
    wrong = [
        f"{query}: {places}"
        for query, places in found.items()
        if not places or not right(places[0], QUERIES[query])
    ]
    tab.context.close()
    assert len(wrong) <= 3, "\n".join(wrong)


def page_of(entry_page: int | str) -> int | str:
    """A chapter by its number, 0 too, another page by its name."""
    if isinstance(entry_page, int):
        return entry_page
    name = Path(entry_page).stem
    return 0 if name == "00_overview" else name


def test_most_of_what_others_type_is_answered_first(address, browser):
    """Queries of many kinds of reader: 19 of 20 come first, nearly all near it."""
    sets = tomllib.loads((Path(__file__).parent / "queries.toml").read_text(encoding="utf-8"))
    asked = {query: meant for one in sets.values() for query, meant in one.items()}
    tab = Visit(browser, address).open("search.html?q=softmax")
    spelled = tab.evaluate(SPELLED, list(asked))
    found = tab.evaluate(RANK, spelled)
    tab.context.close()
    places = [[page_of(place[0]) in meant for place in first[:3]]
              for first, meant in zip(found, asked.values(), strict=True)]  # fmt: skip
    assert len(asked) > 800
    assert sum(one[:1] == [True] for one in places) >= 0.95 * len(asked)
    assert sum(any(one) for one in places) >= 0.98 * len(asked)


def test_words_of_the_index_are_those_of_the_page(address):
    text = (HTML / "_static" / booksearch.INDEX).read_text(encoding="utf-8")
    assert "Duplicate" not in text  # of Sphinx, which says so to authors
    assert "in an hour goes once" in text


def slips(query: str) -> list[str]:
    """A letter left out, one typed twice, and two that have changed places, in the longest word."""
    word = max(re.findall(r"[a-zA-Z]+", query), key=len)
    i = len(word) // 2
    wrong = [word[:i] + word[i + 1 :], word[:i] + word[i] + word[i:],
             word[: i - 1] + word[i] + word[i - 1] + word[i + 1 :]]  # fmt: skip
    return [query.replace(word, one) for one in wrong if len(word) > 5]


def test_a_slip_of_the_pen_is_mended(address, browser):
    tab = Visit(browser, address).open("search.html?q=sotfmax")
    assert tab.inner_text("#search-results p >> nth=0") == (
        "The book does not say “sotfmax”. The best 40 places for “softmax”."
    )
    pairs = [(slip, query) for query in QUERIES for slip in slips(query)]
    spelled = tab.evaluate(SPELLED, [slip for slip, _ in pairs])
    right = tab.evaluate(SPELLED, list(QUERIES))
    tab.context.close()
    missed = [f"{a}: {c}" for (a, b), c in zip(pairs, spelled, strict=True) if b != c]
    assert right == list(QUERIES) and len(pairs) > 100
    assert len(missed) <= len(pairs) / 10, missed


def test_two_words_typed_as_one_are_two(address, browser):
    tab = Visit(browser, address).open("search.html?q=beamsearch")
    assert tab.inner_text("#search-results p >> nth=0") == (
        "The book does not say “beamsearch”. The best 40 places for “beam search”."
    )
    typed = ["reducescatter", "causalmask", "layernorm", "prunning", "theorem"]
    spelled = tab.evaluate(SPELLED, typed)
    tab.context.close()
    assert spelled == ["reduce scatter", "causal mask", "layernorm", "pruning", "theorem"]


def test_two_words_that_the_book_writes_as_one_are_one(address, browser):
    """And what it has in both ways, or side by side, stays as it was typed."""
    tab = Visit(browser, address).open("search.html?q=softmax")
    typed = ["soft max", "over fitting", "data loader", "fine tuning", "hard max", "beam search"]
    spelled = tab.evaluate(SPELLED, typed)
    tab.context.close()
    assert spelled == ["softmax", "overfitting", *typed[2:]]


def test_a_name_in_code_that_the_book_has_not_is_its_words(address, browser):
    """A name that it has, or keeps, stays; no number is put right; a Greek letter has its name."""
    tab = Visit(browser, address).open("search.html?q=softmax")
    typed = ["kv_cache", "layer_norm_eps", "BertTokenizer", "FlashAttention", "eps_ls", "int8"]
    spelled = tab.evaluate(SPELLED, typed)
    places = tab.evaluate(PLACES, ["γ and β", "β2"])
    tab.context.close()
    assert spelled == ["kv cache", "layer norm eps", "Bert Tokenizer", *typed[3:]]
    assert places[0] == ["notebooks/10_sublayers.html", "layer-normalisation"]
    assert places[1] == ["notebooks/12_training.html", "adam"]


def test_first_letters_stand_for_a_term_of_the_glossary(address, browser):
    """Where the book does not say them: what it does say, and no word, stays as it was typed."""
    tab = Visit(browser, address).open("search.html?q=MQA")
    assert tab.inner_text("#search-results p >> nth=0") == (
        "The book does not say “MQA”. The best 40 places for “multi-query attention”."
    )
    assert "20_today" in tab.locator(".found a").first.get_attribute("href")
    typed = ["gqa", "kl", "bpe", "xyz", "mqa speed", "OOV"]
    spelled = tab.evaluate(SPELLED, typed)
    tab.context.close()
    assert spelled == [*typed[:4], "multi-query attention speed", "out of vocabulary"]


def test_a_question_is_about_its_subject(address, browser):
    """Also one that has more words than what is kept for a page."""
    meant = {
        "attention is all you need paper": "00_overview",
        "how do transformers use word order": "09_positions", "parameter count": "11_transformer",
        "what is a token": "01_tokens", "what is cross attention": "08_masks",
        "why do we need positional encoding": "09_positions", "why warmup": "12_training",
        "how does beam search work": "13_decoding", "mean and variance": "06_attention",
        "what is a query in attention": "05_queries_keys_values", "what is d_model": "notation",
        "out of vocabulary": "01_tokens", "decoder only model": "16_families",
        "what happens if I forget the mask": "08_masks",
        "what do I need to know before reading": "intro",
    }  # fmt: skip
    tab = Visit(browser, address).open("search.html?q=softmax")
    found = dict(zip(meant, tab.evaluate(FIRST, list(meant)), strict=True))
    tab.context.close()
    assert {query: Path(page).stem for query, page in found.items()} == meant


# In which form an answer is wanted, and by which field.
FORMS = ["purpose of {}", "define {}", "{} tutorial", "{} simple explanation", "derive {}",
         "{} code", "{} in machine learning", "idea behind {}", "who invented {}", "{} visualised",
         "{} diagram", "{} for beginners", "advantages and disadvantages of {}"]  # fmt: skip


def test_the_form_of_an_answer_leads_nobody_astray(address, browser):
    """Whoever asks for a tutorial on a subject comes to where the subject is."""
    subjects = [query for query in QUERIES if query != "exercise"]
    asked = [form.format(query) for form in FORMS for query in subjects]
    tab = Visit(browser, address).open("search.html?q=softmax")
    meant, found = tab.evaluate(FIRST, subjects), tab.evaluate(FIRST, asked)
    kept = ["attention is all you need paper explained", "what is a transformer model",
            "nn.MultiheadAttention same result",
            "nn.Transformer gives different output"]  # fmt: skip
    pages = tab.evaluate(FIRST, kept)
    tab.context.close()
    wrong = [one for one, a, b in zip(asked, meant * len(FORMS), found, strict=True) if a != b]
    assert len(wrong) <= 0.02 * len(asked), wrong
    assert [Path(page).stem for page in pages] == ["00_overview", "00_overview", "07_multihead",
                                                   "11_transformer"]  # fmt: skip


def lead(address, browser, every: int) -> None:
    """What is kept for a page leads to it, and what is kept for a section nearly always there."""
    asked = {
        one: (name, anchor)
        for name, places in booksearch.typed().items()
        for anchor, all_ in places.items()
        for one in all_
    }
    some = list(asked)[::every]
    tab = Visit(browser, address).open("search.html?q=softmax")
    places = tab.evaluate(PLACES, tab.evaluate(SPELLED, some))
    tab.context.close()
    found = {
        query: (Path(page).stem, anchor) for query, (page, anchor) in zip(some, places, strict=True)
    }
    assert len(asked) > 3000
    assert not [query for query, (page, _) in found.items() if page != asked[query][0]]
    beside = [query for query, (_, anchor) in found.items() if anchor != asked[query][1]]
    assert len(beside) <= len(some) / 50, beside


def test_what_is_kept_for_a_page_leads_to_it(address, browser):
    lead(address, browser, every=5)


@pytest.mark.weekly
def test_all_that_is_kept_leads_there(address, browser):
    lead(address, browser, every=1)


def test_nothing_is_kept_twice():
    kept = [
        one.lower()
        for places in booksearch.typed().values()
        for all_ in places.values()
        for one in all_
    ]
    assert len(kept) == len(set(kept))


def test_a_name_in_code_leads_to_the_package_and_a_word_to_its_chapter(address, browser):
    """Many names of the package are words, too. A page that is called by its name comes first."""
    meant = {
        "flash": "17_sparse", "multihead": "07_multihead", "cache": "13_decoding",
        "decoding": "13_decoding", "parsing": "18_parsing", "MultiHeadAttention": "api",
        "flash_attention": "api", "translator": "translator", "the glossary": "glossary",
        "notation": "notation", "package": "api", "project": "project",
        "nn.MultiheadAttention": "07_multihead", "F.scaled_dot_product_attention": "06_attention",
        "nn.TransformerEncoderLayer": "10_sublayers", "torch.nn.Transformer": "11_transformer",
        "compare with nn.Transformer": "11_transformer", "d_ff": "notation", "bos/eos": "notation",
        "decoder": "11_transformer", "tokenizer": "01_tokens",
    }  # fmt: skip
    tab = Visit(browser, address).open("search.html?q=softmax")
    found = dict(zip(meant, tab.evaluate(FIRST, list(meant)), strict=True))
    tab.context.close()
    assert {query: Path(page).stem for query, page in found.items()} == meant


def test_a_number_leads_to_what_has_it(address, browser):
    """A chapter, a place in it, an exercise; and a title that names a chapter is itself meant."""
    chapters = {
        "chapter 7": "07_multihead", "ch. 12 dropout": "12_training",
        "chapter eleven": "11_transformer", "chapter 0": "00_overview",
        "what is chapter 17 about": "17_sparse", "part 2": "intro",
        "masks in chapter 11": "11_transformer", "notebook 13": "13_decoding",
    }  # fmt: skip
    sections = {
        "exercise 3.5": "exercise-3-5", "hint for ex 12.2": "exercise-12-2",
        'check("7.1", heads)': "exercise-7-1", "chapter 3 exercises": "exercises",
        "chapter 13 cache": "the-cache-one-token-at-a-time", "beta2 0.98": "adam",
        "chapter 4 as a special case": "chapter-4-as-a-special-case",
    }  # fmt: skip
    tab = Visit(browser, address).open("search.html?q=softmax")
    pages = tab.evaluate(FIRST, list(chapters))
    places = tab.evaluate(PLACES, list(sections))
    tab.context.close()
    found = dict(zip(chapters, [Path(page).stem for page in pages], strict=True))
    assert found == chapters
    assert dict(zip(sections, [anchor for _, anchor in places], strict=True)) == sections


def test_a_word_cut_short_is_the_word(address, browser):
    """But not in a name in code: attn_mask, nn.init."""
    whole = {
        "cross attn": "cross-attention", "pos enc": "positional encoding",
        "FF layer": "feed-forward layer", "num params": "number of parameters",
        "seq len": "sequence length", "pretraining": "pre-training",
        "ckpt averaging": "checkpoint averaging", "spec decoding": "speculative decoding",
        "softmax temp": "softmax temperature", "qkv": "queries keys values",
        "val loss": "validation loss", "EN-DE BLEU": "English to German BLEU",
        "fig 2": "figure 2", "autoregressive": "auto-regressive",
    }  # fmt: skip
    tab = Visit(browser, address).open("search.html?q=softmax")
    short = tab.evaluate(PLACES, tab.evaluate(SPELLED, list(whole)))
    long = tab.evaluate(PLACES, list(whole.values()))
    code = tab.evaluate(FIRST, ["attn_mask", "nn.init"])
    tab.context.close()
    assert dict(zip(whole, short, strict=True)) == dict(zip(whole, long, strict=True))
    assert [Path(page).stem for page in code] == ["08_masks", "11_transformer"]


def test_a_word_of_the_glossary_is_explained(address, browser):
    """Among the first three; the part of a chapter that is about it stays before it."""
    tab = Visit(browser, address).open("search.html?q=softmax")
    words = ["softmax", "BLEU", "causal mask", "scaled dot-product attention", "label smoothing"]
    for word, places in zip(words, tab.evaluate(RANK, words), strict=True):
        assert "book/glossary.html" in [page for page, *_ in places[:3]], f"{word}: {places}"
        assert isinstance(places[0][0], int), f"{word}: {places}"
    tab.context.close()


def test_what_is_too_big_is_large(address, browser):
    """The book writes of large scores and of small gradients."""
    tab = Visit(browser, address).open("search.html?q=softmax")
    typed, written = tab.evaluate(
        f"pairs => pairs.map({PLACES})",
        [["scores too big", "tiny slope"], ["scores large", "small slope"]],
    )
    tab.context.close()
    assert typed == written and typed[0][0] == "notebooks/06_attention.html"


def test_the_match_is_to_be_seen_where_a_result_leads(address, browser):
    visit = Visit(browser, address, viewport={"width": 1280, "height": 900})
    tab = visit.open("book/intro.html")
    tab.keyboard.press("Control+k")
    tab.fill("#pst-search-dialog input", "what is teacher forcing?")
    tab.keyboard.press("Enter")
    tab.wait_for_selector(".found li")
    assert "teacher forcing" in tab.locator(".found li p").first.inner_text().lower()
    marks = {one.lower() for one in tab.locator(".found mark").all_inner_texts()}
    assert marks == {"teacher", "forcing"}  # no "is", and no "a" of each word that begins with one
    tab.click(".found li a >> nth=0")
    tab.wait_for_selector(".hide-found")
    tab.wait_for_load_state("load")
    wait(tab, "window.mathematicsIsSet")
    assert "08_masks.html?highlight=teacher%20forcing#teacher-forcing" in tab.url
    seen = """() => [...CSS.highlights.get("found")].filter(range => {
      const {top, height} = range.getBoundingClientRect();
      return height && top > 60 && top < innerHeight; }).length"""
    assert drawn(tab, seen) > 0
    tab.click(".hide-found")
    assert not tab.evaluate("CSS.highlights.has('found')")
    tab.goto(address + "search.html?q=xyzzy")
    tab.wait_for_selector("#search-results p")
    assert "Nothing was found" in tab.inner_text("#search-results")
    assert not visit.wrong
    tab.context.close()


def test_another_search_opened_as_a_file(browser, address):
    tab = Visit(browser, HTML.as_uri() + "/").open("search.html?q=layer%20norm")
    assert "10_sublayers" in tab.locator(".found a").first.get_attribute("href")
    tab.context.close()
