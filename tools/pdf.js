// Put the pages into the one that is open, after a page of contents: for tools/pdf.py. A place in a
// page, "#x", gets the page's name before it, so that links between pages become links in the book.
async (pages) => {
  const name = (address) => address.split("/").pop().replace(".html", "");
  const known = new Set(pages.map(name));
  const here = document.querySelector(".bd-article");
  const title = here.querySelector("h1").textContent.replace("#", "");
  here.replaceChildren();
  const make = (tag, className, text = "") => Object.assign(document.createElement(tag), { className, textContent: text });
  const cover = make("section", "printed-cover");
  cover.append(make("h1", "", title), make("p", "subtitle", "The Transformer, cell by cell"));
  const contents = make("section", "printed-contents");
  contents.append(make("h2", "", "Contents"));
  const list = make("ul", "");
  contents.append(list);
  document.head.append(make("style", "", `
    .printed-cover { display: flex; flex-direction: column; justify-content: center; height: 240mm; }
    .bd-article .printed-cover h1 { font-size: 54pt; }
    .bd-article .printed-cover .subtitle { margin: 1rem 0 0; color: var(--accent); font: italic 22pt var(--serif); }
    :is(.printed-contents, .printed-page) { break-before: page; }
    .bd-article .printed-contents ul { list-style: none; padding: 0; max-width: none; font: 11pt/1.6 var(--sans); }
    .printed-contents li { display: flex; justify-content: space-between; gap: 2em; margin: 0; border-bottom: 1px solid var(--rule); }
    .printed-contents .number { display: inline-block; width: 2em; }
  `));
  here.append(cover, contents);
  for (const address of pages) {
    const text = await (await fetch(new URL(`../${address}`, location))).text();
    const page = new DOMParser().parseFromString(text, "text/html");
    const chapter = page.querySelector(".bd-article > section");
    for (const one of chapter.querySelectorAll("[id]")) one.id = `${name(address)}--${one.id}`;
    chapter.id = name(address);
    for (const one of chapter.querySelectorAll("a[href]")) {
      const url = new URL(one.getAttribute("href"), new URL(`../${address}`, location));
      if (url.origin !== location.origin) continue;
      if (known.has(name(url.pathname))) one.href = `#${name(url.pathname)}${url.hash ? `--${url.hash.slice(1)}` : ""}`;
      else one.removeAttribute("href");
    }
    for (const one of chapter.querySelectorAll("img")) {
      one.src = new URL(one.getAttribute("src"), new URL(`../${address}`, location)).href;
      one.removeAttribute("loading");
    }
    chapter.querySelectorAll("script, .headerlink").forEach((one) => one.remove());
    chapter.classList.add("printed-page");
    here.append(chapter);
    const head = chapter.querySelector("h1").cloneNode(true);
    head.querySelectorAll(".headerlink").forEach((one) => one.remove());
    const number = head.querySelector(".section-number")?.textContent.trim() ?? "";
    head.querySelector(".section-number")?.remove();
    const line = make("li", "");
    const link = Object.assign(make("a", ""), { href: `#${name(address)}` });
    link.append(make("span", "number", number), ...head.childNodes);
    line.append(link, make("span", "page"));
    list.append(line);
  }
  document.title = title;
  document.querySelectorAll(".bd-article .math").forEach((one) => one.querySelector("mjx-container") || setFormula(one));
  await Promise.all([...document.images].map((one) => one.decode().catch(() => null)));
}
