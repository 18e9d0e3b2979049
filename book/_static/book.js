// What the pages do beyond the theme: mathematics is set a little at a time, boxes that scroll can be
// reached with the keyboard, and wide tables scroll in a box of their own. For the reader's place in
// the page see place.js.

// A formula in the place of its TeX. MathJax would measure the page anew for each: it is told what
// it needs, and what it makes is the same.
const setFormula = (math) => {
  const tex = math.textContent.trim().replace(/^\\[[(]|\\[\])]$/g, "");
  const display = math.tagName === "DIV";
  math.replaceChildren(MathJax.tex2chtml(tex, { display, em: 16, ex: 8, containerWidth: 1280 }));
  math.classList.add("set"); // by :has(), WebKit would look through the page for each
};

// What is near the reader's eyes is set first, then the rest, in portions short enough for the page
// to answer in between. The rest waits until the reader begins to read, or for three seconds; so
// long, sections out of sight are not laid out either.
const SIGNS = ["scroll", "pointermove", "touchstart", "keydown"];
const reading = new Promise((go) => {
  for (const sign of SIGNS) addEventListener(sign, go, { once: true, passive: true });
  addEventListener("load", () => setTimeout(go, 3000));
});
const pause = () => new Promise((go) => (window.requestIdleCallback ?? setTimeout)(go, { timeout: 100 }));
const mathematics = async (reach) => {
  await window.MathJax?.startup?.promise;
  if (!window.MathJax?.tex2chtml) document.documentElement.classList.add("tex"); // it stays as it is
  const left = new Set(window.MathJax?.tex2chtml ? document.querySelectorAll(".math") : []);
  if (left.size) document.head.append(MathJax.chtmlStylesheet());
  const near = [];
  let watch;
  const first = new Promise((go) => {
    watch = new IntersectionObserver((seen) => {
      near.push(...seen.filter((one) => one.isIntersecting).map((one) => one.target));
      go();
    }, { rootMargin: "600px" });
  });
  left.forEach((one) => watch.observe(one));
  addEventListener("beforeprint", () => {
    left.forEach(setFormula);
    left.clear();
  });
  if (left.size) await Promise.race([first, reading]); // in a tab that is not shown, none is seen
  while (left.size) {
    await (near.length ? pause() : reading.then(pause));
    for (const end = performance.now() + 8; left.size && performance.now() < end; ) {
      const next = near.shift() ?? left.values().next().value;
      if (!left.delete(next)) continue;
      watch.unobserve(next);
      setFormula(next);
    }
  }
  await reading;
  document.querySelectorAll("img[loading]").forEach((figure) => (figure.loading = "eager"));
  for (const section of document.querySelectorAll(".bd-article > section > section:not(.laid)")) {
    await pause();
    section.classList.add("laid"); // see book.css: until now its place was an estimate
  }
  reach();
};

// Paper is white: the page is printed light, whatever it is on the screen.
let worn = null;
const wear = (paper) => {
  const { dataset } = document.documentElement;
  if (paper && worn === null) [worn, dataset.theme] = [dataset.theme, "light"];
  if (!paper && worn !== null) [dataset.theme, worn] = [worn, null];
};
addEventListener("beforeprint", () => wear(true));
addEventListener("afterprint", () => wear(false));
matchMedia("print").addEventListener("change", ({ matches }) => wear(matches));

document.addEventListener("DOMContentLoaded", () => {
  const fonts = document.getElementById("fonts");
  if (location.protocol === "file:") fonts.media = "all";
  else if (!matchMedia(fonts.media).matches && !localStorage.getItem("fonts")) {
    // The text of a phone's first page does not change its font while it is read: the next has them.
    addEventListener("load", () => reading.then(() => Promise.all(window.bookFonts.map(([, url]) => fetch(url))))
      .then(() => localStorage.setItem("fonts", "here")).catch(() => null));
  }
  for (const table of document.querySelectorAll(".bd-article table.table, .bd-article table.dataframe")) {
    if (table.parentElement.matches(".pst-scrollable-table-container, .table-wrap")) continue;
    const box = Object.assign(document.createElement("div"), { className: "table-wrap" });
    table.replaceWith(box);
    box.append(table);
  }

  const boxes = document.querySelectorAll(".bd-article :is(pre, div.math, .broad, .table-wrap, .pst-scrollable-table-container)");
  const reach = () => {
    for (const math of document.querySelectorAll(".bd-article :is(p, li, dd) span.math:not(td *, th *)")) {
      const wide = math.firstElementChild?.offsetWidth > (math.closest("p, li, dd").clientWidth || Infinity);
      math.classList.toggle("wide", wide);
      wide ? (math.tabIndex = 0) : math.removeAttribute("tabindex");
    }
    boxes.forEach((box) => (box.scrollWidth > box.clientWidth ? (box.tabIndex = 0) : box.removeAttribute("tabindex")));
  };
  addEventListener("load", () => (window.mathematicsIsSet = mathematics(reach)));
  addEventListener("resize", reach);
  document.addEventListener("toggle", reach, true);
});
