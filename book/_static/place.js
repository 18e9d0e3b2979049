// The reader's place in a page: where a link leads, where the reader was when the page is opened
// again, what the search has found, and what the contents, the line of progress and the first page
// show of it.
//
// A page is laid out a little at a time (see book.js), and what is laid out above the reader moves
// all below. So the block that was jumped to is held where it was put until the reader scrolls.

{
  const BLOCK = ".bd-article section > :not(section), .bd-article dl.py > *";
  const KEPT = "allyouneed.places"; // in localStorage: page: {title, section, hash, share, when}
  const SIGNS = ["wheel", "touchmove", "pointerdown", "keydown"];
  const page = location.pathname.split("/").slice(-2).join("/");
  const stored = () => {
    try {
      return JSON.parse(localStorage.getItem(KEPT)) ?? {};
    } catch {
      return {}; // storage is switched off, or holds something else
    }
  };

  // {element, top, y, tall, at}: `top` in the window, or nothing for where a link puts it; then where
  // the page was, its height and where the element was, when it was last put in its place
  let held = null;
  const root = document.documentElement;
  const release = () => (held = null);

  const keep = () => {
    if (!held) return;
    const { element, top } = held;
    if (top === undefined) element.scrollIntoView({ behavior: "instant" });
    else scrollBy({ top: element.getBoundingClientRect().top - top, behavior: "instant" });
    Object.assign(held, { y: scrollY, tall: root.scrollHeight, at: element.getBoundingClientRect().top });
  };

  // The browser, too, scrolls: while it loads, and where what stands above has changed its height or
  // the page has become too short. Only then is the element still where it was, or the page at its end.
  const byItself = ({ element, tall, at }) => {
    if (document.readyState !== "complete") return true;
    if (root.scrollHeight === tall) return false;
    const moved = Math.abs(element.getBoundingClientRect().top - at);
    return moved < innerHeight / 2 || scrollY + innerHeight > root.scrollHeight - 2;
  };

  const hold = (element, top) => {
    if (!element) return;
    element.closest(".bd-article > section > section")?.classList.add("laid");
    held = { element, top };
    keep();
  };

  const blocks = () => [...document.querySelectorAll(BLOCK)];
  const target = () => document.getElementById(decodeURIComponent(location.hash.slice(1)));

  // To where the reader was in this entry of the browser's history, else to where the link leads.
  const arrive = (state) => {
    const block = state?.place && blocks()[state.place.index];
    if (block) return hold(block, state.place.top);
    const section = target();
    const match = marked.find((range) => section?.contains(range.startContainer))?.startContainer.parentElement;
    const far = match && match.getBoundingClientRect().top - section.getBoundingClientRect().top > innerHeight / 2;
    far ? hold(match, innerHeight / 3) : hold(section);
  };

  // Mark the words that were searched for (?highlight=...), until the reader hides them. The page
  // stays as it is: the browser draws the marks over it.
  let marked = [];
  const mark = (article) => {
    const asked = new URLSearchParams(location.search).get("highlight")?.match(/[\p{L}\p{N}_]+/gu);
    if (!asked || !CSS.highlights) return;
    const pattern = new RegExp(`(?<![\\p{L}\\p{N}_])(${asked.join("|")})`, "giu");
    const texts = document.createTreeWalker(article, NodeFilter.SHOW_TEXT, (node) =>
      node.parentElement.closest(".math, script, style") ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT);
    const parts = []; // a name in code has several, with places between at which it may be broken
    let all = "", part = 0;
    for (; texts.nextNode(); all += texts.currentNode.data) parts.push([all.length, texts.currentNode]);
    const at = (index, after = 0) => {
      while (parts[part + 1]?.[0] <= index) part++;
      return [parts[part][1], index - parts[part][0] + after];
    };
    for (const { 0: word, index } of all.matchAll(pattern)) {
      const range = new Range();
      range.setStart(...at(index));
      range.setEnd(...at(index + word.length - 1, 1));
      marked.push(range);
    }
    if (!marked.length) return;
    CSS.highlights.set("found", new Highlight(...marked));
    const hide = Object.assign(document.createElement("button"), { className: "hide-found", textContent: "Hide search matches" });
    hide.onclick = () => {
      CSS.highlights.delete("found");
      hide.remove();
    };
    addEventListener("keydown", ({ key }) => { if (key === "Escape") hide.onclick(); });
    document.querySelector("main").append(hide);
  };

  // The uppermost block in sight, under the bar, and where it begins.
  const here = (article) => {
    const { left, width } = article.getBoundingClientRect();
    for (let y = 72; y < innerHeight; y += 16) {
      const block = document.elementFromPoint(left + width / 2, y)?.closest(BLOCK);
      if (block) return { index: blocks().indexOf(block), top: block.getBoundingClientRect().top };
    }
    return null;
  };

  const share = () => Math.min(1, scrollY / Math.max(1, root.scrollHeight - innerHeight));

  // On the first page: where to go on, and how far each chapter is read.
  const goOn = (places) => {
    const list = document.querySelector(".bd-article #all-you-need");
    const newest = Object.entries(places).sort(([, a], [, b]) => b.when - a.when)[0];
    if (!list || !newest) return;
    for (const link of list.querySelectorAll(":is(ol, h3 + ul) li a[href]")) {
      const place = places[link.pathname.split("/").slice(-2).join("/")];
      if (place) link.closest("li").style.setProperty("--read", `${Math.round(100 * place.share)}%`);
    }
    const [address, { title, section, hash }] = newest;
    const text = section ? `${title}, ${section}` : title;
    const link = Object.assign(document.createElement("a"), { href: `../${address}${hash}`, textContent: text });
    const line = Object.assign(document.createElement("p"), { className: "go-on" });
    line.append("Go on at ", link);
    list.querySelector(".first-words").prepend(line);
  };

  // An entry of the contents at the side, in the middle of their box if it is out of sight.
  const bringIntoView = (link, side) => {
    const box = link?.closest(side);
    if (!box || box.scrollHeight <= box.clientHeight) return;
    const [entry, frame] = [link.getBoundingClientRect(), box.getBoundingClientRect()];
    const middle = entry.top - frame.top - (frame.height - entry.height) / 2;
    if (entry.top < frame.top + 40 || entry.bottom > frame.bottom - 40) box.scrollTop += middle;
  };
  // The theme keeps the box as it stood on the page before.
  addEventListener("load", () => bringIntoView(document.querySelector(".bd-sidebar-primary a.current"), ".bd-sidebar-primary"));

  history.scrollRestoration = "manual";
  addEventListener("DOMContentLoaded", () => {
    const article = document.querySelector(".bd-article");
    if (!article) return;
    const links = [...document.querySelectorAll("#pst-page-toc-nav a[href^='#']")];
    const heads = links.map((a) => document.getElementById(decodeURIComponent(a.hash.slice(1))));
    const progress = Object.assign(document.createElement("div"), { className: "progress-line" });
    document.body.append(progress);
    links.forEach((a, i) => {
      const head = a.parentElement.matches(".toc-h2") && heads[i];
      const minutes = head && !["exercises", "further-reading"].includes(head.id) && head.dataset.minutes;
      if (minutes) a.dataset.minutes = `${minutes} min`;
    });

    let now = -1;
    const follow = () => {
      now = heads.findLastIndex((head) => head && head.getBoundingClientRect().top < innerHeight / 3);
      links.forEach((a, i) => a.classList.toggle("active", i === now));
      bringIntoView(links[now], ".bd-sidebar-secondary");
      progress.style.setProperty("--share", share());
    };

    const save = () => {
      const place = here(article);
      if (!place) return; // the contents lie over the page
      history.replaceState({ ...history.state, place }, "");
      if (!page.startsWith("notebooks/") || scrollY < innerHeight / 2) return;
      const head = heads[now];
      const section = links[now]?.textContent ?? "";
      const heading = article.querySelector("h1"), number = heading.querySelector(".section-number");
      const title = number ? `Chapter ${number.textContent}` : heading.firstChild.textContent.trim();
      const about = { title, section, hash: head ? `#${head.id}` : "", share: share(), when: Date.now() };
      try {
        localStorage.setItem(KEPT, JSON.stringify({ ...stored(), [page]: about }));
      } catch { /* storage is full or switched off: the place is not remembered */ }
    };

    let drawn, saved;
    addEventListener("scroll", () => {
      if (held && Math.abs(scrollY - held.y) > 1) byItself(held) ? keep() : release();
      cancelAnimationFrame(drawn);
      drawn = requestAnimationFrame(follow);
      clearTimeout(saved);
      saved = setTimeout(save, 200);
    }, { passive: true });
    for (const sign of SIGNS) addEventListener(sign, release, { capture: true, passive: true });
    addEventListener("pagehide", save);
    addEventListener("click", ({ target: clicked }) => {
      const link = clicked.closest?.("a[href]");
      if (!link) return;
      save();
      if (!link.getAttribute("href").startsWith("#") || !link.hash) return;
      clicked.closest("dialog[open]")?.close(); // on a phone the contents lie over the page
      setTimeout(() => hold(target()));
    });
    addEventListener("popstate", ({ state }) => arrive(state));
    // a page that was kept whole: WebKit shows it from its top
    addEventListener("pageshow", ({ persisted }) => { if (persisted && history.state?.place) arrive(history.state); });
    document.querySelector(".secondary-toggle")?.addEventListener("click", () => setTimeout(follow));

    const moved = new ResizeObserver(keep);
    for (const part of [article, ...article.querySelectorAll(":scope > section > section")]) moved.observe(part);
    goOn(stored());
    mark(article);
    arrive(history.state);
    follow();
  });
}
