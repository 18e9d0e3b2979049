// What the reader has chosen and done: the road through the book, and which exercises are solved.
// Both are kept in this browser (localStorage) and go nowhere else; the exercises can be saved as a
// file and read from one, in the form of the diary that `progress()` keeps: {"done": ["1.1", ...]}.

{
  const ROAD = "allyouneed.road", DONE = "allyouneed.done";
  const stored = (key, otherwise) => {
    try {
      return JSON.parse(localStorage.getItem(key)) ?? otherwise;
    } catch {
      return otherwise;
    }
  };
  const keep = (key, value) => {
    try {
      localStorage.setItem(key, JSON.stringify(value));
    } catch { /* storage is full or switched off: it is not remembered */ }
  };
  const make = (tag, values, ...children) => {
    const element = Object.assign(document.createElement(tag), values);
    element.append(...children);
    return element;
  };
  const data = (id) => JSON.parse(document.getElementById(id)?.textContent ?? "null");
  const NUMBER = /^[\w.]{1,20}$/; // "6.2", "project"
  const numbers = (list) => (Array.isArray(list) ? list.map(String).filter((one) => NUMBER.test(one)) : []);
  const done = () => new Set(numbers(stored(DONE, [])));
  const byNumber = (a, b) => a.localeCompare(b, "en", { numeric: true });
  const save = (all) => keep(DONE, [...all].sort(byNumber));

  // ---- the road ----

  // On a page of a chapter: the heading of a section that is not on it says where it goes on.
  const takeRoad = (road) => {
    document.documentElement.dataset.road = road;
    document.querySelectorAll(".off-road").forEach((one) => one.remove());
    const places = data("roads"), sections = [...document.querySelectorAll("section[data-roads]")];
    const on = (section) => section.dataset.roads.split(" ").includes(road) || section.id === "exercises";
    document.querySelectorAll("#pst-page-toc-nav .toc-h2 > a").forEach((link) => {
      const section = document.getElementById(decodeURIComponent(link.hash.slice(1)));
      link.parentElement.classList.toggle("off", Boolean(places?.[road] && section?.dataset.roads !== undefined && !on(section)));
    });
    if (!places?.[road]) return;
    const [name, url, words] = places[road];
    sections.forEach((section, i) => {
      if (on(section)) return;
      const next = sections.slice(i + 1).find((one) => one.dataset.roads.split(" ").includes(road));
      const link = next
        ? make("a", { href: `#${next.id}`, textContent: next.querySelector("h2").firstChild.textContent })
        : make("a", { href: url, textContent: words });
      const line = section.querySelector(".section-line");
      line.prepend(make("span", { className: "off-road" }, `Not on the road “${name}”, which goes on at `, link));
    });
  };

  // ---- the exercises ----

  const count = (all, solved) => `${all.filter((one) => solved.has(one)).length} of ${all.length}`;

  const inChapter = (solved) => {
    const lines = [...document.querySelectorAll("[data-exercise]")];
    const all = lines.map((one) => one.dataset.exercise);
    const some = all.some((one) => solved.has(one));
    for (const says of document.querySelectorAll(".chapter-links .count, .section-line .count")) {
      const name = says.dataset.words;
      says.textContent = some ? `${count(all, solved)} ${name} done` : `${all.length} ${name}`;
    }
    for (const line of lines) {
      const is = solved.has(line.dataset.exercise);
      line.querySelector("button")?.setAttribute("aria-pressed", is);
      const box = line.closest(".admonition, section"); // a stage of the project has a section
      box.classList.toggle("done", is);
      document.querySelector(`#pst-page-toc-nav a[href="#${box.id}"]`)?.classList.toggle("done", is);
    }
  };

  const onFirstPage = (solved) => {
    const chapters = data("all-exercises");
    if (!chapters) return;
    const page = (address) => address.split("#")[0].split("/").pop();
    const of = Object.fromEntries(Object.entries(chapters).map(([address, all]) => [page(address), all]));
    for (const link of document.querySelectorAll(":is(ol, ul) > li a[href]")) {
      const all = of[page(link.getAttribute("href"))];
      const minutes = link.parentElement.querySelector(".minutes");
      if (!all?.length || !minutes) continue;
      const name = all[0].startsWith("project") ? "stages" : "exercises";
      minutes.dataset.done = all.some((one) => solved.has(one)) ? `, ${count(all, solved)} ${name} done` : "";
    }
    for (const link of document.querySelectorAll("svg.plan a")) {
      const all = of[page(link.getAttribute("href"))], box = link.querySelector("rect");
      link.querySelector(".share")?.remove();
      if (!all?.length || !box) continue;
      const share = all.filter((one) => solved.has(one)).length / all.length;
      if (!share) continue;
      const bar = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      const [x, y, width, height] = ["x", "y", "width", "height"].map((name) => Number(box.getAttribute(name)));
      const values = { x: x + 2, y: y + height - 5, width: (width - 4) * share, height: 4, rx: 2, fill: "#00704f", class: "share" };
      for (const [name, value] of Object.entries(values)) bar.setAttribute(name, value);
      link.append(bar);
    }
    const all = Object.values(of).flat();
    const says = document.getElementById("progress-says");
    if (says) says.textContent = `${count(all, solved)} exercises are marked as done in this browser.`;
  };

  const show = () => {
    const solved = done();
    inChapter(solved);
    onFirstPage(solved);
  };

  // The diary as a file, and back. What is read is added to what is there.
  const saveFile = () => {
    const text = JSON.stringify({ done: [...done()].sort(byNumber) });
    const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: "application/json" })), download: "progress.json" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const readFile = async (field) => {
    const says = document.getElementById("progress-says");
    try {
      const found = numbers(JSON.parse(await field.files[0].text()).done);
      save(new Set([...done(), ...found]));
      show();
      says.textContent = `The file has ${found.length} exercises. ${says.textContent}`;
    } catch {
      says.textContent = "This is not a progress.json, as `progress()` keeps it: nothing was changed.";
    }
    field.value = "";
  };

  addEventListener("DOMContentLoaded", () => {
    for (const line of document.querySelectorAll("[data-exercise]")) {
      const number = line.dataset.exercise;
      const button = make("button", { type: "button", className: "tick", textContent: "Done" });
      button.setAttribute("aria-label", `Exercise ${number} done`);
      button.onclick = () => {
        const all = done();
        all.delete(number) || all.add(number);
        save(all);
        show();
      };
      line.append(button);
    }
    const chosen = stored(ROAD, "all");
    for (const field of document.querySelectorAll("input[name='road']")) {
      field.checked = field.value === chosen;
      field.onchange = () => {
        keep(ROAD, field.value);
        takeRoad(field.value);
      };
    }
    const box = document.getElementById("progress");
    if (box) {
      const file = make("input", { type: "file", accept: ".json,application/json", onchange: () => readFile(file) });
      box.append(
        make("button", { type: "button", textContent: "Save as a file", onclick: saveFile }),
        make("label", {}, "Add from a file ", file),
        make("button", { type: "button", textContent: "Forget all", onclick: () => {
          const before = [...done()];
          save([]);
          show();
          const back = make("button", { type: "button", textContent: "Undo", onclick: () => { save(before); show(); } });
          document.getElementById("progress-says").append(" ", back);
        } }),
      );
    }
    takeRoad(chosen);
    show();
  });
  addEventListener("storage", show); // in another tab
  addEventListener("pageshow", ({ persisted }) => persisted && show());
}
