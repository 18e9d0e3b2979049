// What the pages do beyond the theme: boxes that scroll can be reached with the keyboard, the list
// of contents follows the reader, and wide tables scroll in a box of their own.
document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll(".bd-article table.table, .bd-article table.dataframe")) {
    if (table.parentElement.matches(".pst-scrollable-table-container, .table-wrap")) continue;
    const box = Object.assign(document.createElement("div"), { className: "table-wrap" });
    table.replaceWith(box);
    box.append(table);
  }

  const boxes = document.querySelectorAll(".bd-article :is(pre, div.math, .table-wrap, .pst-scrollable-table-container)");
  const reach = () => {
    for (const math of document.querySelectorAll(".bd-article :is(p, li, dd) span.math:not(td *, th *)")) {
      const wide = math.firstElementChild?.offsetWidth > (math.closest("p, li, dd").clientWidth || Infinity);
      math.classList.toggle("wide", wide);
      wide ? (math.tabIndex = 0) : math.removeAttribute("tabindex");
    }
    boxes.forEach((box) => (box.scrollWidth > box.clientWidth ? (box.tabIndex = 0) : box.removeAttribute("tabindex")));
  };
  addEventListener("load", () => (window.MathJax?.startup?.promise ?? Promise.resolve()).then(reach));
  addEventListener("resize", reach);
  document.addEventListener("toggle", reach, true);

  const links = [...document.querySelectorAll("#pst-page-toc-nav a[href^='#']")];
  const heads = links.map((a) => document.getElementById(decodeURIComponent(a.hash.slice(1))));
  const follow = () => {
    const now = heads.findLastIndex((head) => head && head.getBoundingClientRect().top < innerHeight / 3);
    links.forEach((a, i) => a.classList.toggle("active", i === now));
  };
  if (links.length) addEventListener("scroll", follow, { passive: true });
});

// Opened as a file, a page may not read other pages: search then lists titles without extracts.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
