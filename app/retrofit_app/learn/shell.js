// The tour: steps, their state in the address, controls and questions, keys, lecture mode, handout. Within the workbench, which
// holds it in a frame, the address and some keys are the workbench's: both tell each other (see pages/learn/frame.js).
const Tour = (() => {
  const steps = [];
  const root = document.documentElement;
  const isEmbedded = parent !== window;
  const byId = (id) => document.getElementById(id);
  let number = 0;       // the shown step, from 0
  let page = null;      // the mounted step
  let isRefreshing = false;
  let theme = "";       // the screen's, while a handout is printed
  let told = null;      // what the workbench's address last held

  // The meaning of each symbol in formulas. A symbol has one colour in formulas, pictures and text.
  const SYMBOLS = {
    z: ["z", "a neuron's answers: one number for each sample, before the activation function"],
    s: ["s", "importance: how much a neuron matters to its own network's decisions"],
    R: ["R<sub>k</sub>", "a group: the parents' neurons that fused neuron k stands for"],
    T: ["T<sub>k</sub>", "the target of fused neuron k: the importance-weighted mean of its group"],
    f: ["f<sub>k</sub>", "the answers of fused neuron k"],
    J: ["J", "the cost of a level: how far the parents' neurons are from the fused neuron of their group"],
  };
  const symbol = (name) => `<span class="symbol ${name}" tabindex="0" data-symbol="${name}">${SYMBOLS[name][0]}</span>`;
  /** Text with {z}, {s}, {R}, {T}, {f}, {J} as coloured symbols with tooltips. */
  const rich = (text) => text.replace(/\{([zsRTfJ])\}/g, (_, name) => symbol(name));

  // ---- state and address ----------------------------------------------------------------------------------------------
  const encode = (value) => (typeof value === "number" ? String(Number(value.toFixed(4))) : String(value));
  function parse(text, example) {
    if (typeof example === "number") return Number.isFinite(Number(text)) && text !== "" ? Number(text) : example;
    if (typeof example === "boolean") return text === "true";
    return text;
  }
  /** The step's state: its defaults, changed by the address. Unknown values are ignored. */
  function stateFrom(step, parameters) {
    const state = { ...step.state };
    for (const [key, value] of parameters) if (key in state) state[key] = parse(value, state[key]);
    return step.check ? step.check(state) : state;
  }
  /** The address's parameters, or those of the workbench's (`data-state`). */
  const readAddress = () => new URLSearchParams(isEmbedded ? root.dataset.state : location.hash.slice(1));
  /** What is shown, as the address holds it. */
  function written() {
    const changed = Object.entries(page.state).filter(([key, value]) => value !== steps[number].state[key]);
    const words = [["step", number + 1], ...(root.classList.contains("lecture") ? [["lecture", 1]] : []), ...changed.map(([key, value]) => [key, encode(value)])];
    return words.map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join("&");
  }
  function writeAddress() {
    const words = written();
    if (!isEmbedded && `#${words}` !== location.hash) history.replaceState(null, "", `#${words}`);
    if (isEmbedded && words !== told) parent.postMessage({ retrofitShows: words, at: told }, "*");
    told = words;
  }
  /** The address of what is shown. */
  function link() {
    if (!isEmbedded) return location.href;
    const address = new URL(parent.location.href);
    address.searchParams.set("at", written());
    return address.href;
  }

  // ---- parts of a step ------------------------------------------------------------------------------------------------
  /** A step's elements. `live` is false in the handout, where nothing changes and questions are open. */
  function build(step, state, live) {
    const words = el("section", { class: "words" });
    const figure = el("section", { class: "figure" });
    const updates = [];   // called after each change, first to last
    const open = [];      // answer a question that is shown and open; each returns whether it was
    const self = {
      state, figure, live,
      set(changes) { Object.assign(state, changes); if (live) requestRefresh(); },
      onUpdate(update) { updates.push(update); },
      /** A paragraph; text may be a function of the state, which keeps it up to date. */
      say(text, className = "") {
        const paragraph = el("p", { class: className });
        words.append(paragraph);
        fill(paragraph, text);
        return paragraph;
      },
      /** Easily misunderstood points, explained on hover and focus: [[words, explanation], ...] */
      traps(...list) {
        const row = el("p", { class: "row" }, ...list.map(([name, explanation]) => el("span", { class: "trap", tabindex: 0, "data-tip": explanation }, name)));
        words.append(row);
      },
      formula(text) { return self.say(text, "formula"); },
      slider({ key, label, min, max, step: stride = 1, format = String, into = words,
        read = () => state[key], write = (value) => self.set({ [key]: value }) }) {
        const output = el("output");
        const input = el("input", { type: "range", min, max, step: stride, "aria-label": label });
        input.addEventListener("input", () => write(Number(input.value)));
        updates.push(() => { input.value = read(); output.textContent = format(read()); });
        const line = el("label", { class: "slider" }, el("span", {}, label), output, input);
        into.append(line);
        return line;
      },
      /** Mutually exclusive options: [[value, label, state => why it cannot be chosen now, or ""], ...]. */
      choice({ key, label, options, into = words }) {
        const group = el("fieldset", { class: "choice" }, el("legend", {}, label));
        const row = el("div");
        const name = `${key}-${Math.random().toString(36).slice(2)}`;
        for (const [value, text, obstacle] of options) {
          const input = el("input", { type: "radio", name });
          input.addEventListener("change", () => self.set({ [key]: value }));
          const option = el("label", {}, input, el("span", {}, text));
          updates.push(() => {
            input.checked = state[key] === value;
            input.disabled = Boolean(obstacle?.(state));
          });
          row.append(option);
        }
        group.append(row);
        if (options.some((option) => option[2])) {
          const reasons = words.appendChild(el("p"));
          updates.push(() => { reasons.textContent = [...new Set(options.map((option) => option[2]?.(state) ?? ""))].join(" "); });
        }
        into.append(group);
        return group;
      },
      button(label, action, into = words) {
        const node = el("button", { type: "button", class: "action" }, label);
        node.addEventListener("click", () => action(node));
        into.append(node);
        return node;
      },
      buttons(...pairs) {
        const row = el("p", { class: "row" });
        words.append(row);
        for (const [label, action] of pairs) self.button(label, action, row);
        return row;
      },
      /** Answer first, then see. `options(state)` -> [[label, reason, is it right], ...]; state[key] holds the answer (0: none). */
      ask({ key, question, options, into = words, shownWhen = () => true, then = () => ({}) }) {
        const box = el("div", { class: "question" });
        const ask = el("p", {});
        const answers = el("div", { class: "answers" });
        const verdict = el("p", { class: "verdict", "aria-live": "polite" });
        box.append(ask, answers, verdict);
        into.append(box);
        open.push(() => {
          if (!shownWhen(state) || state[key] > 0) return false;
          const right = options(state).findIndex((choice) => choice[2]);
          self.set({ [key]: right + 1, ...then(right) });
          return true;
        });
        let drawn = "";
        updates.push(() => {
          box.style.display = shownWhen(state) ? "" : "none";
          const choices = options(state);
          const chosen = state[key];
          const answered = chosen > 0 && chosen <= choices.length;
          const signature = JSON.stringify([choices, chosen]);
          if (signature === drawn) return;
          drawn = signature;
          ask.innerHTML = rich(typeof question === "function" ? question(state) : question);
          const focused = answers.contains(document.activeElement);
          answers.replaceChildren(...choices.map(([label, , isRight], index) => {
            const mark = !answered ? "" : isRight ? "right" : index + 1 === chosen ? "wrong" : "other";
            const button = el("button", { type: "button", class: mark, "aria-pressed": String(index + 1 === chosen) });
            button.innerHTML = `${mark === "right" ? "✓ " : mark === "wrong" ? "✗ " : ""}${rich(label)}`;
            button.addEventListener("click", () => self.set({ [key]: index + 1, ...then(index) }));
            return button;
          }));
          if (focused) answers.children[Math.max(0, chosen - 1)]?.focus();
          verdict.innerHTML = answered ? rich(choices[chosen - 1][1]) : "";
          if (answered) {
            const again = el("button", { type: "button", class: "quiet" }, "Ask again");
            again.addEventListener("click", () => self.set({ [key]: 0 }));
            verdict.append(" ", again);
          }
        });
        return box;
      },
      /** The points of a curve, computed one per frame, so that slow machines stay responsive. */
      curve(name, places, compute) {
        const missing = places.filter((place) => !World.has(`${name} ${place}`));
        for (const place of live ? missing.slice(0, 1) : missing) World.once(`${name} ${place}`, () => compute(place));
        if (live && missing.length > 1) requestRefresh();
        return places.filter((place) => World.has(`${name} ${place}`)).map((place) => [place, World.once(`${name} ${place}`)]);
      },
      answered: (key) => state[key] > 0,
    };
    const fill = (node, text) => {
      if (typeof text !== "function") { node.innerHTML = rich(text); return; }
      let last = null;
      updates.push(() => {
        const next = rich(text(state));
        if (next !== last) { last = next; node.innerHTML = next; }
      });
    };
    self.fill = fill;
    words.append(el("h1", {}, step.title));
    step.mount(self);
    return { words, figure, state, refresh: () => { for (const update of updates) update(); }, reveal: () => open.some((answer) => answer()) };
  }

  function requestRefresh() {
    if (isRefreshing) return;
    isRefreshing = true;
    requestAnimationFrame(() => { isRefreshing = false; page.refresh(); writeAddress(); });
  }

  // ---- navigation -----------------------------------------------------------------------------------------------------
  function show(next, parameters = new URLSearchParams()) {
    number = Math.min(Math.max(Math.floor(next) || 0, 0), steps.length - 1);
    const step = steps[number];
    page = build(step, stateFrom(step, parameters), true);
    const stage = byId("stage");
    stage.replaceChildren(page.words, page.figure);
    stage.scrollTop = 0;
    stage.className = step.layout || "";
    page.refresh();
    writeAddress();
    for (const [index, link] of [...byId("rail").children].entries()) {
      link.setAttribute("aria-current", index === number ? "step" : "false");
    }
    byId("place").textContent = placeWords();
    for (const [name, shift] of [["previous", -1], ["next", 1]]) {
      const button = document.querySelector(`[data-do=${name}]`);
      const neighbour = steps[number + shift];
      button.disabled = !neighbour;
      button.querySelector("span").textContent = neighbour ? neighbour.title : name === "next" ? "The end" : "The beginning";
    }
    document.title = `${number + 1}. ${step.title} · Retrofit`;
  }

  const placeWords = () => `${number + 1} of ${steps.length}${root.classList.contains("lecture") ? " · Esc ends lecture mode" : ""}`;

  const actions = {
    next: () => show(number + 1),
    previous: () => show(number - 1),
    lecture(isOn = !root.classList.contains("lecture")) {
      root.classList.toggle("lecture", isOn);
      document.querySelector("[data-do=lecture]").setAttribute("aria-pressed", String(isOn));
      if (!page) return;
      byId("place").textContent = placeWords();
      requestRefresh();
    },
    theme() {
      root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
      page.refresh();
    },
    print: () => window.print(),
  };

  /** All steps, one below the other, for paper; their questions stay open. */
  function fillHandout() {
    theme = root.dataset.theme;
    root.dataset.theme = "light"; // paper is white
    const sheets = steps.map((step, index) => build(step, index === number ? { ...page.state, guess: 0 } : stateFrom(step, []), false));
    for (const sheet of sheets) sheet.refresh();
    byId("handout").replaceChildren(...sheets.map((sheet) => el("article", {}, sheet.words, sheet.figure)));
    if (isEmbedded) frameElement.style.setProperty("--sheets", Math.ceil(steps.length / 2)); // of the workbench, two steps each
  }
  function clearHandout() {
    byId("handout").replaceChildren();
    root.dataset.theme = theme;
    page.refresh();
  }

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const inControl = event.target.closest?.("input, select, textarea, [data-keys]");
    const moves = { PageDown: "next", PageUp: "previous", j: "next", k: "previous", l: "lecture", p: "print" };
    if (!isEmbedded) moves.d = "theme";
    if (!inControl) Object.assign(moves, { ArrowRight: "next", ArrowLeft: "previous" });
    if (event.key === "Escape") { byId("tip").hidden = true; if (root.classList.contains("lecture")) actions.lecture(false); return; }
    const name = moves[event.key] ?? moves[event.key.toLowerCase()];
    if (!name) return;
    event.preventDefault();
    if (name === "next" && root.classList.contains("lecture") && page.reveal()) return;
    actions[name]();
  }

  function onPoint(event) {
    const target = event.target.closest?.("[data-symbol], [data-tip]");
    const tip = byId("tip");
    if (!target) { tip.hidden = true; return; }
    tip.innerHTML = target.dataset.symbol ? `${symbol(target.dataset.symbol)}: ${SYMBOLS[target.dataset.symbol][1]}` : target.dataset.tip;
    tip.hidden = false;
    const place = target.getBoundingClientRect();
    const left = Math.min(Math.max(8, place.left), innerWidth - tip.offsetWidth - 8);
    const below = place.bottom + 6 + tip.offsetHeight < innerHeight;
    tip.style.left = `${left}px`;
    tip.style.top = `${below ? place.bottom + 6 : place.top - tip.offsetHeight - 6}px`;
  }

  function start() {
    if (isEmbedded) root.classList.add("embedded"); // the workbench has its own name and theme
    byId("rail").append(...steps.map((step, index) => {
      const link = el("a", { href: `#step=${index + 1}`, title: step.title }, el("b", {}, String(index + 1)), el("span", {}, step.short));
      link.addEventListener("click", (event) => { event.preventDefault(); show(index); });
      return link;
    }));
    document.addEventListener("click", (event) => {
      const name = event.target.closest("[data-do]")?.dataset.do;
      if (name) actions[name]();
    });
    document.addEventListener("keydown", onKey);
    document.addEventListener("mouseover", onPoint);
    document.addEventListener("focusin", onPoint);
    const go = () => {
      const words = readAddress();
      actions.lecture(words.has("lecture"));
      show(Number(words.get("step") || 1) - 1, words);
    };
    addEventListener("hashchange", go);
    addEventListener("message", ({ data }) => {
      if (data.retrofitTheme) { root.dataset.theme = data.retrofitTheme; page.refresh(); }
      if ("retrofitShow" in data) { root.dataset.state = data.retrofitShow; told = null; go(); }
    });
    addEventListener("resize", () => page.refresh());
    addEventListener("beforeprint", fillHandout);
    addEventListener("afterprint", clearHandout);
    go();
  }

  return { step: (step) => steps.push(step), start, rich, show, link, get page() { return page; }, get steps() { return steps; } };
})();
