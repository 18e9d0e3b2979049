// What a link leads to, on a card beside it while the pointer or the focus is on it: equations,
// exercises, chapters, words of the glossary, references. A finger that taps a word of the glossary
// gets its card, and goes there with the second tap. The cards are fetched with the first.

const BookCards = (() => {
  const script = document.currentScript.src;
  const root = new URL("..", script).href;
  let cards, asked, card, link, timer;
  let touch = false; // whether the pointer is a finger: not every browser's click says so

  const receive = (all) => (cards = all);
  const fetched = () => asked ??= new Promise((go) => {
    const data = Object.assign(document.createElement("script"), { src: new URL("cards-data.js", script) });
    data.onload = go;
    document.head.append(data);
  });

  const hide = () => {
    clearTimeout(timer);
    card?.remove();
    link?.removeAttribute("aria-describedby");
    card = link = null;
  };

  const show = async (from) => {
    await fetched();
    const found = cards?.[from.href.replace(root, "").replace(/\?[^#]*/, "")];
    const about = typeof found === "string" ? cards[found] : found;
    if (!about || link !== from || card) return;
    card = Object.assign(document.createElement("div"), { className: "hover-card", id: "hover-card" });
    card.setAttribute("role", "tooltip");
    const [title, says] = about;
    if (title) card.append(Object.assign(document.createElement("strong"), { textContent: title }));
    const body = document.createElement("div");
    body.innerHTML = says; // made by book/_ext/bookreferences.py
    card.append(body);
    if (touch) card.append(Object.assign(document.createElement("small"), { textContent: "Tap again to go there." }));
    if (window.MathJax?.tex2chtml) body.querySelectorAll(".math").forEach(setFormula);
    document.body.append(card);
    from.setAttribute("aria-describedby", "hover-card");
    const [at, size] = [from.getClientRects()[0], card.getBoundingClientRect()];
    const left = Math.max(8, Math.min(at.left, document.documentElement.clientWidth - size.width - 8));
    const under = at.bottom + 6 + size.height < innerHeight || at.top < size.height + 70;
    card.style.left = `${left + scrollX}px`;
    card.style.top = `${scrollY + (under ? at.bottom + 6 : at.top - size.height - 6)}px`;
    card.onpointerleave = later;
    card.onpointerenter = () => clearTimeout(timer);
  };

  const begin = (from, wait) => {
    if (from === link && card) return clearTimeout(timer);
    hide();
    link = from;
    timer = setTimeout(show, wait, from);
  };
  const later = () => {
    if (link?.matches(":focus-visible")) return; // the page has moved under a pointer at rest
    clearTimeout(timer);
    timer = setTimeout(hide, 200);
  };
  const linkOf = ({ target }) => target.closest?.(".bd-article a:is(.internal, .external)");

  addEventListener("pointerover", (event) => {
    const from = linkOf(event);
    touch = event.pointerType === "touch";
    if (from && !touch) begin(from, 250);
    else if (link && link !== from && !card?.contains(event.target)) later();
  });
  addEventListener("focusin", (event) => {
    const from = event.target.matches?.(":focus-visible") && linkOf(event);
    if (from) begin(from, 0);
    else if (linkOf(event) !== link) hide();
  });
  addEventListener("keydown", ({ key }) => { if (key === "Escape") hide(); });
  addEventListener("click", (event) => {
    const from = touch && event.detail && linkOf(event);
    if (!from || !from.matches(".to-term:not([href^='#'])") || from === link) return hide();
    event.preventDefault();
    begin(from, 0);
  });
  return { receive };
})();
