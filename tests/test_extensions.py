"""The book's Sphinx extensions, on small pieces."""

from __future__ import annotations

import ast
import re
import sys
from html import escape
from pathlib import Path
from types import SimpleNamespace

import pytest
from docutils import nodes
from sphinx.errors import ExtensionError

sys.path.insert(0, str(Path(__file__).parents[1] / "book" / "_ext"))
import bookapi  # noqa: E402
import bookexercises  # noqa: E402
import bookminutes  # noqa: E402
import booknotebooks  # noqa: E402
import booksite  # noqa: E402
import bookstyles  # noqa: E402
import plainmath  # noqa: E402


def test_a_quote_with_a_kind_becomes_a_box():
    text = "Before.\n\n> **Exercise 1.2 (count, easy).** Write `f`.\n>\n> More.\n\n> plain quote\n"
    expected = (
        "Before.\n\n:::::{admonition} Exercise 1.2 (count, easy)\n:class: exercise\n"
        ":name: exercise-1-2\n\nWrite `f`.\n\nMore.\n:::::\n\n> plain quote\n"
    )
    assert booknotebooks.QUOTE.sub(booknotebooks.box, text) == expected
    note = booknotebooks.QUOTE.sub(booknotebooks.box, "> **From the paper.** Words.")
    assert ":class: from-the-paper\n\nWords." in note


def test_exported_cells_lose_the_directive_and_gain_a_tag():
    cell = {"cell_type": "code", "source": "#| export\nx = 1", "metadata": {}}
    page = booknotebooks.page_cell(cell)
    assert page["source"] == "x = 1" and page["metadata"]["tags"] == ["exported"]
    assert cell["source"].startswith("#|")


def test_the_cells_that_set_a_chapter_up_are_marked():
    def code(source, *tags, **more):
        metadata = {"tags": list(tags)}
        return {"cell_type": "code", "source": source, "metadata": metadata, **more}

    cells = [
        code("import importlib.util", "setup", "hide-input"),
        code("#| default_exp x", "remove-cell"),
        code("#| export\nfrom __future__ import annotations\nimport math"),
        code("import torch\n\ntorch.manual_seed(0)", "hide-input"),
        code("words = 9", "hide-input", outputs=[]),
        code("words", "hide-input", outputs=["9"]),
        code("x = 1", "hide-input"),
        code("import copy"),
    ]
    marked = booknotebooks.with_set_up(cells)
    tags = [cell["metadata"]["tags"] for cell in marked]
    assert [booknotebooks.SET_UP in one for one in tags] == [True] * 5 + [False] * 3
    assert [booknotebooks.is_folded(cell) for cell in marked] == [False] * 5 + [True] * 2 + [False]


def test_what_an_exercise_says_to_look_at_again():
    sections = bookexercises.sections(6)
    assert sections["6.1"] == "Dog again" and len(sections) > 5


def test_a_solution_is_folded_with_its_output():
    source = '#@title Solution {display-mode: "form"}\nf = 1'
    cell = {"cell_type": "code", "source": source, "metadata": {"tags": ["hide-input", "solution"]}}
    page = booknotebooks.page_cell(cell)
    assert page["source"] == "f = 1" and "hide-cell" in page["metadata"]["tags"]
    assert page["metadata"]["mystnb"]["code_prompt_show"] == "Show a solution"


@pytest.mark.parametrize(
    ("tex", "text"),
    [
        ("d_k", "dₖ"),
        (r"1/\sqrt{d_k}", "1/√dₖ"),
        (
            r"\text{softmax}\!\left(\frac{QK^\top}{\sqrt{d_k}}\right) V \tag{1}",
            "softmax((QKᵀ)/(√dₖ)) V (1)",
        ),
        (r"q \cdot k = \sum_{i=1}^{d_k} q_i k_i", "q · k = Σᵢ₌₁^dₖ qᵢ kᵢ"),
        (r"d_\text{model}, P_{drop}", "d_(model), P_(drop)"),
        (r"x_1, \ldots, x_n \in \mathbb{R}^{T \times D}", "x₁, …, xₙ ∈ R^(T × D)"),
        (r"\begin{aligned} a &= b \\ c &= -1 \end{aligned}", "a = b\nc = −1"),
        (r"{", ""),
    ],
)
def test_a_formula_as_plain_text(tex, text):
    assert plainmath.plain(tex) == text


def test_signatures_are_as_written():
    code = 'def f(q: Float[Tensor, "B T K"], *, mask=None) -> Float[Tensor, "B T"]: ...'
    wanted = "(q: Float[Tensor, 'B T K'], *, mask=None) -> Float[Tensor, 'B T']"
    assert bookapi.signature(ast.parse(code).body[0]) == wanted
    method = ast.parse("class A:\n    def f(self, x: int = 3): ...").body[0].body[0]
    assert bookapi.signature(method, method=True) == "(x: int=3)"


PAGE = """<h1><span class="section-number">4. </span>Self-attention</h1>
<details><summary aria-label="Toggle hidden content">Show</summary></details>
<img alt="a map" src="../_images/map.svg" /> <pre><span></span>x <span class="k">in</span> y</pre>
<div class="citation" role="doc-biblioentry">Vaswani</div>
<script type="text/x-thebe-config">{}</script> <script>kernelName = "python3"</script>"""
SCRIPTS = {  # of a page: files, and what stands in the page itself
    "_static/sphinx-thebe.js": None,
    "_static/design-tabs.js": None,
    "_static/togglebutton.js": None,
    "_static/sphinx_highlight.js": None,
    "_static/doctools.js": None,
    None: "DOCUMENTATION_OPTIONS.pagename = 'notebooks/04_similarity';",
    "": "let toggleHintShow = 'Click'; const toggleOpenOnPrint = 'true';",
}


def context_of_a_page(body: str = PAGE, scripts: dict = SCRIPTS) -> dict:
    def asset(name, text=None):
        return SimpleNamespace(filename=name, attributes={"body": text} if text else {})

    return {
        "body": body,
        "meta": {"folds": 1},
        "pathto": lambda name, resource: f"../{name}",
        "script_files": [asset(*script) for script in scripts.items()],
        "css_files": [asset("_static/sphinx-design.min.css"), asset("_static/basic.css")],
    }


@pytest.fixture
def write_page(tmp_path):
    """Write a page as Sphinx does: what the extension makes of its context."""
    label = '<g transform="translate(9 9) scale(0.09 -0.09)"></g>'  # 9 points, 12 pixels
    (tmp_path / "map.svg").write_text(f'<svg width="300pt" height="150pt">{label}</svg>', "utf-8")
    env = SimpleNamespace(images={"map.svg": ({"notebooks/04_similarity"}, "map.svg")})
    app = SimpleNamespace(env=env, srcdir=tmp_path)
    doctree = nodes.container("", nodes.image(uri="map.svg"), nodes.citation())

    def write(context):
        booksite.on_page(app, "notebooks/04_similarity", "page.html", context, doctree)
        return context

    return write


def test_what_a_page_becomes(write_page):
    context = write_page(context_of_a_page())
    body = context["body"]
    assert '<span class="section-number">4</span>' in body and "Open in Colab" in body
    assert '<img loading="lazy" width="400" height="200" alt="a map"' in body
    assert 'style="--own:400px;--least:333px"' in body and 'href="../_images/map.svg"' in body
    assert 'role="listitem"' in body and not re.search("thebe|Toggle|doc-biblio", body)
    names = [script.filename for script in context["script_files"]]
    assert names == ["_static/doctools.js", None]
    assert context["script_files"][0].attributes == {"defer": "defer"}
    assert "DOMContentLoaded" in context["script_files"][1].attributes["body"]
    assert [sheet.filename for sheet in context["css_files"]] == ["_static/basic.css"]


@pytest.mark.parametrize(
    ("patch", "old", "new"),
    [
        ("LINKS", "</h1>", "</h2>"),
        ("NUMBER", "section-number", "number"),
        ("FIGURE", "../_images/", "../images/"),
        ("FOLD", "Toggle hidden content", "Show what is hidden"),
        ("REFERENCE", "doc-biblioentry", "doc-endnote"),
        ("THEBE", "text/x-thebe-config", "application/json"),
        ("Marked", ">x ", '><span class="n">x</span> '),
    ],
)
def test_markup_that_has_changed_fails_the_build(patch, old, new, write_page):
    assert old in PAGE
    with pytest.raises(ExtensionError, match=rf"{patch} finds .*notebooks/04_similarity\.html"):
        write_page(context_of_a_page(PAGE.replace(old, new)))


def test_a_fold_too_many_or_too_few_fails_the_build(write_page):
    fold = ' aria-label="Toggle hidden content"'
    for body in (PAGE.replace(fold, ""), PAGE.replace(fold, 2 * fold)):
        with pytest.raises(ExtensionError, match=r"FOLD finds \d places \(expected: 1\)"):
            write_page(context_of_a_page(body))


@pytest.mark.parametrize("word", sorted(booksite.UNUSED - {"sphinx-design"}))
def test_an_unused_script_that_is_gone_fails_the_build(word, write_page):
    def without(text):
        return text and re.sub(word, "other", text, flags=re.I)

    scripts = {without(name): without(text) for name, text in SCRIPTS.items()}
    with pytest.raises(ExtensionError, match=rf"UNUSED finds .* no page loads {word}"):
        write_page(context_of_a_page(scripts=scripts))


def test_an_unused_style_sheet_that_is_gone_fails_the_build(write_page):
    context = context_of_a_page()
    context["css_files"] = context["css_files"][1:]
    with pytest.raises(ExtensionError, match="UNUSED finds .* no page loads sphinx-design"):
        write_page(context)


def test_a_page_without_its_settings_fails_the_build(write_page):
    scripts = SCRIPTS | {None: "OPTIONS.pagename = 'notebooks/04_similarity';"}
    with pytest.raises(ExtensionError, match="OPTIONS finds nothing"):
        write_page(context_of_a_page(scripts=scripts))


SEARCH = """<script src="_static/searchtools.js"></script>
<script src="_static/language_data.js"></script> <script src="searchindex.js"></script>"""
MEASURES = 'function f(){const e=()=>{document.querySelectorAll(["pre",".nboutput"])}}'


@pytest.mark.parametrize(
    ("patch", "search", "script", "first"),
    [
        (None, SEARCH, MEASURES, "<script defer src='_static/doctools.js'>"),
        ("SEARCH", SEARCH.replace("searchtools", "search"), MEASURES, ""),
        ("SEARCH", SEARCH.replace("<script src", '<script type="module" src'), MEASURES, ""),
        ("MEASURES", SEARCH, MEASURES.replace('"pre"', '"div"'), ""),
        ("later", SEARCH, MEASURES, "<script src='_static/searchtools.js'>"),
        ("later", SEARCH + "<script type=module src='new.js'>", MEASURES, ""),
        ("INLINE", SEARCH, MEASURES, r'<span class="math notranslate">\(x\)</span>'),
        ("CORNER", SEARCH, MEASURES, '<thead><th class="first head"><p></p></th></thead>'),
    ],
)
def test_the_files_for_all_pages(patch, search, script, first, tmp_path):
    js = tmp_path / "_static" / "scripts" / "pydata-sphinx-theme.js"
    js.parent.mkdir(parents=True)
    js.write_text(script, "utf-8")
    (tmp_path / "search.html").write_text(search, "utf-8")
    (tmp_path / "intro.html").write_text(first, "utf-8")
    config = SimpleNamespace(root_doc="intro")
    app = SimpleNamespace(builder=SimpleNamespace(name="html"), outdir=tmp_path, config=config)
    if patch:
        with pytest.raises(ExtensionError, match=f"{patch} finds"):
            booksite.on_build_finished(app, None)
    else:
        booksite.on_build_finished(app, None)
        assert (tmp_path / "search.html").read_text("utf-8").count("<script defer src") == 3
        assert "function f(){return;const e" in js.read_text("utf-8")


def test_other_builders_have_no_such_files(tmp_path):
    app = SimpleNamespace(builder=SimpleNamespace(name="linkcheck"), outdir=tmp_path)
    booksite.on_build_finished(app, None)


@pytest.fixture
def static(tmp_path):
    """A small theme: each sheet has a rule that fits, and one an icon."""
    for name in bookstyles.SHEETS:
        file = tmp_path / name.replace("*", "1a2b")
        file.parent.mkdir(exist_ok=True)
        file.write_text(".here { color: red }", "utf-8")
    (tmp_path / "styles" / "pydata-sphinx-theme.css").write_text(
        '@font-face { font-family: "Font Awesome 6" } .gone { color: red }', "utf-8"
    )
    return tmp_path


def test_a_theme_with_other_style_sheets_fails_the_build(static):
    assert ".gone" not in bookstyles.one_sheet(static, {"here"})
    with pytest.raises(ExtensionError, match=r"book\.css: no page .* what \.here is for"):
        bookstyles.one_sheet(static, {"gone"})
    (static / "styles" / "pydata-sphinx-theme.css").write_text(".here { color: red }", "utf-8")
    with pytest.raises(ExtensionError, match="AWESOME finds nothing"):
        bookstyles.one_sheet(static, {"here"})
    (static / "basic.css").unlink()
    with pytest.raises(ExtensionError, match=r"SHEETS \(basic\.css\) finds nothing"):
        bookstyles.one_sheet(static, {"here"})


def test_a_style_sheet_that_nobody_knows_fails_the_build():
    context = {"css_files": [SimpleNamespace(filename="_static/styles/new.css")]}
    with pytest.raises(ExtensionError, match=r"styles/new\.css is missing in bookstyles"):
        bookstyles.on_page(None, "book/intro", "page.html", context, None)


def test_a_theme_without_our_template_fails_the_build(static):
    page = static / "index.html"
    text = "_static/style.css _static/fonts.css _static/scripts/pydata-sphinx-theme.js"
    builder = SimpleNamespace(format="html", get_outfilename=lambda name: page)
    config = SimpleNamespace(root_doc="index")
    app = SimpleNamespace(builder=builder, config=config, outdir=static)
    for name in text.split():
        page.write_text(text.replace(name, ""), "utf-8")
        with pytest.raises(ExtensionError, match=rf"webpack-macros\.html finds .*{name}"):
            bookstyles.on_build_finished(app, None)


def test_pages_without_scripts_fail_the_build(tmp_path):
    (tmp_path / "index.html").write_text("<script type=module src=theme.js></script>", "utf-8")
    with pytest.raises(ExtensionError, match="SCRIPT finds nothing"):
        bookstyles.words_of(tmp_path)


def moving_picture(kind: str = "cell") -> nodes.container:
    raw = nodes.raw("", '<div class="moving heads"></div>', format="html")
    still = nodes.container("", nodes.figure(), classes=["cell"])
    return nodes.container("", still, nodes.container("", raw, classes=[kind]))


def test_cells_of_another_kind_fail_the_build():
    app = SimpleNamespace(env=SimpleNamespace(docname="notebooks/07_multihead"))
    doctree = moving_picture()
    booknotebooks.on_doctree_read(app, doctree)
    figure = doctree[0][0]
    assert isinstance(figure[0], nodes.raw) and len(doctree) == 1
    with pytest.raises(ExtensionError, match="on_doctree_read finds nothing"):
        booknotebooks.on_doctree_read(app, moving_picture("code"))
    app.env.metadata = {"notebooks/07_multihead": {"exports_to": "allyouneed.multihead"}}
    app.builder = SimpleNamespace(format="html", get_relative_uri=lambda *names: "../book/api.html")
    with pytest.raises(ExtensionError, match="tag_exported finds nothing"):
        booknotebooks.on_doctree_resolved(app, doctree, "notebooks/07_multihead")


def test_an_empty_corner_heads_no_column_and_a_formula_has_room(write_page):
    empty, formula = '<th class="head"><p></p></th>', r"\(\sqrt{d_k}\)"
    inline = f'<span class="math notranslate nohighlight">{formula}</span>'
    body = write_page(context_of_a_page(PAGE + empty + inline))["body"]
    assert "<th" not in body and "<td></td>" in body
    room = re.search(
        r'<span style="--room:([\d.]+)em" data-plain="√dₖ" class="math [^>]*>(.*?)</span>', body
    )
    assert 0.5 < float(room[1]) < 2 and room[2] == formula


def test_a_sign_stays_with_its_formula(write_page):
    def body(tex: str, then: str) -> str:
        math = f'<p><span class="math notranslate nohighlight">\\({tex}\\)</span>{then}</p>'
        return write_page(context_of_a_page(PAGE + math))["body"]

    assert re.search(
        r'<p><span class="with-sign"><span [^>]*>\\\(x\\\)</span>\),</span> and',
        body("x", "), and"),
    )
    assert "with-sign" not in body("x", " and") + body("x + y = z" * 9, ", and")


def test_long_names_are_broken_where_their_words_end():
    """Not a short one, not at the edges of one, and no number."""
    words = ["batch.key_padding_mask", "__getitem__.__len__", "d_model", "<b>", "1.25,2.5e-05,0.5"]
    code = [f'<span class="pre">{escape(word)}</span>' for word in words]
    broken = booksite.broken_at_joints(" ".join(code)).split(" <span")
    assert "batch.<wbr>key_<wbr>padding_<wbr>mask<" in broken[0]
    assert [f"<span{one}" for one in broken[1:]] == code[1:]


def test_an_address_that_is_written_out_is_broken_after_its_signs():
    """Not in its link, and not where a link has words."""
    url, words = "https://a.org/abs/2004.05150", '<a href="https://a.org/b.c">of a.b/c</a>'
    broken = booksite.broken_at_joints(f'<a href="{url}">{url}</a>, {words}')
    shown = "https://<wbr>a.<wbr>org/<wbr>abs/<wbr>2004.<wbr>05150"
    assert broken == f'<a href="{url}">{shown}</a>, {words}'


def test_code_without_spaces_is_broken_between_its_parts():
    """Only what is long; what is marked stays so, and no letter is lost."""
    line = "x = <b>len</b>(model.layers[<b>0</b>].w_q==&quot;a&quot;.key_padding_mask)\n"
    broken = booksite.with_joints(line)
    assert broken.split("<wbr>") == [
        "x = <b>len</b>(", "model.", "layers[", "<b>0</b>].", "w_q==",
        "&quot;a&quot;.key_", "padding_", "mask)\n",
    ]  # fmt: skip
    assert booksite.with_joints("a.b(c), d.e[f]\n") == "a.b(c), d.e[f]\n"


def test_a_root_in_a_title_and_long_lines_of_outputs():
    title = nodes.title("", "Why divide by the root of d_k")
    output = nodes.container("", nodes.literal_block("", "x" * 101), classes=["cell_output"])
    doctree = nodes.container("", nodes.section("", title, output))
    booknotebooks.title_with_root(None, doctree)
    booknotebooks.long_lines(doctree)
    assert title.astext() == "Why divide by √dk" and isinstance(title[1], nodes.subscript)
    assert "long-lines" in output["classes"]


def test_columns_of_outputs_are_not_broken():
    for text in ["", "one  line  alone", "loss 4.2\nafter 9 steps 3.1", "Not right.\n  A reason."]:
        assert not booknotebooks.in_columns(text), text
    for text in ["a   1\nbcd 22", "tensor([[1, 2],\n        [3, 4]])", "1.25 2\n0.75 1",
                 "       none: 4.7 4.8\nsinusoids: 4.3 4.2"]:  # fmt: skip
        assert booknotebooks.in_columns(text), text
    printed = nodes.literal_block("", "a   1\nbcd 22")
    listed = nodes.literal_block("", "def f():\n    return 1  # one", language="python")
    doctree = nodes.container("", nodes.container("", printed, listed, classes=["cell_output"]))
    booknotebooks.long_lines(doctree)
    assert printed["classes"] == ["columns"] and not listed["classes"]  # code is no table


def test_minutes_are_those_of_what_is_read():
    code = nodes.literal_block("", "x = 1\n" * 15)
    folded = nodes.container("", code.deepcopy(), classes=["cell", "tag_hide-input"])
    section = nodes.section("", nodes.paragraph("", "word " * 400), code, folded)
    assert bookminutes.minutes(section) == 3
