// Pictures: elements, decision regions and neurons as maps over the plane, small charts. Everything is canvas or SVG.
const SVG = "http://www.w3.org/2000/svg";

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const Draw = (() => {
  const NAMES = ["A", "B", "C", "D"];
  const CLASSES = ["orange", "green", "blue", "pink"];
  const RANGE = 2.4;   // pictures show the plane from -RANGE to RANGE
  const MAP = 40;      // pixels of a neuron's map, across and down

  /** A colour of the style sheet, as [r, g, b]. */
  const cache = new Map();
  function rgb(name) {
    const value = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    if (!cache.has(value)) {
      const probe = document.createElement("canvas").getContext("2d");
      probe.fillStyle = value;
      const hex = probe.fillStyle;
      cache.set(value, [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
    }
    return cache.get(value);
  }
  const css = (name) => `var(--${name})`;

  const grids = new Map();
  const grid = (n) => grids.get(n) || grids.set(n, Engine.grid(n, RANGE)).get(n);

  function paint(canvas, n, colourOf) {
    if (canvas.width !== n) canvas.width = canvas.height = n;
    const context = canvas.getContext("2d");
    const image = context.createImageData(n, n);
    for (let index = 0; index < n * n; index++) {
      const [r, g, b] = colourOf(index);
      image.data.set([r, g, b, 255], 4 * index);
    }
    context.putImageData(image, 0, 0);
  }
  const mix = (a, b, share) => [0, 1, 2].map((i) => a[i] + (b[i] - a[i]) * share);

  /** Decision regions: the most probable class's colour, stronger where the network (or the ensemble of several) is surer. */
  function regions(canvas, networks, n = 64) {
    const paper = rgb("paper");
    const colours = CLASSES.map((_, index) => rgb(`class-${index}`));
    const { classes, confidence } = Engine.regions(networks, grid(n));
    paint(canvas, n, (index) => mix(paper, colours[classes[index]], 0.18 + 0.5 * Math.max(0, (confidence[index] - 0.25) / 0.75)));
  }

  /** A neuron over the plane: grey where it is silent (below 0, where ReLU cuts it off), its network's colour where it fires. */
  function neuron(canvas, values, colour) {
    const paper = rgb("silent");
    const ink = rgb(colour);
    const top = Math.max(1e-9, ...values);
    paint(canvas, MAP, (index) => mix(paper, ink, Math.min(1, Math.max(0, values[index] / top)) ** 0.8));
  }

  const answers = new WeakMap();
  /** Each neuron's outputs over the plane, maps(network)[level][neuron]; computed once per network. */
  function maps(network) {
    if (!answers.has(network)) answers.set(network, Engine.forward(network, grid(MAP)).map(Engine.transposed));
    return answers.get(network);
  }

  const x = (value) => 50 * (value / RANGE + 1);
  const y = (value) => 50 * (1 - value / RANGE);

  /** A square picture of the plane with points over it. */
  function plane(title, { className = "" } = {}) {
    const canvas = el("canvas", { "aria-hidden": "true" });
    const dots = svg("svg", { viewBox: "0 0 100 100", "aria-hidden": "true" });
    const value = el("span", { class: "value" });
    const note = el("span", { class: "note" });
    const node = el("figure", { class: `plane ${className}` }, el("figcaption", {}, el("b", {}, title), value), el("div", { class: "picture" }, canvas, dots), note);
    let last = null, drawn = null;
    return {
      node,
      /** The regions of a network, or of several as an ensemble, with its accuracy, null if there is no such network. */
      show(networks, accuracy, words = "", isCovered = false) {
        node.classList.toggle("covered", isCovered);
        value.textContent = accuracy === null ? "–" : isCovered ? "?" : percent(accuracy, 1);
        note.textContent = words;
        const list = [networks].flat(), theme = document.documentElement.dataset.theme;
        const isDrawn = drawn && drawn.theme === theme && drawn.list.length === list.length && list.every((network, k) => network === drawn.list[k]);
        if (isCovered || isDrawn) return;
        drawn = { list, theme };
        regions(canvas, networks);
      },
      points(samples, labels) {
        if (last === samples) return;
        last = samples;
        dots.replaceChildren(...samples.map((point, index) => svg("circle", {
          cx: x(point[0]).toFixed(2), cy: y(point[1]).toFixed(2), r: 1.1, class: `dot class-${labels[index]}` })));
      },
    };
  }

  /** A neuron as a small tile: map, name, a bar for its importance. */
  function tile(name, colour) {
    const canvas = el("canvas", { "aria-hidden": "true" });
    const bar = el("i", { class: "importance" });
    const label = el("span", {}, name);
    const node = el("button", { type: "button", class: "tile", "aria-label": `neuron ${name}` }, canvas, label, bar);
    node.style.setProperty("--colour", css(colour));
    return {
      node,
      text: () => label.textContent,
      name(text) { label.textContent = text; node.setAttribute("aria-label", `neuron ${text}`); },
      show(values, shade = colour) {
        node.style.setProperty("--colour", css(shade));
        neuron(canvas, values, shade);
      },
      /** relative: 1 is the mean importance of its network's level */
      importance(relative) { bar.style.height = `${Math.min(100, 33 * relative)}%`; bar.hidden = relative === null; },
    };
  }

  /** A line chart: lines [{points: [[x, y], ...], colour, label, dashed}], in a frame of fixed size. */
  function chart({ width = 360, height = 150, xs, ys, xLabel, yLabel, formatX = String, formatY = String, xTicks, yTicks }) {
    if (innerWidth <= 800) width = Math.min(width, 400); // smaller on a phone, so that text stays readable
    const pad = { left: 62, right: 14, top: 12, bottom: 42 };
    const sx = (value) => pad.left + ((value - xs[0]) / (xs[1] - xs[0])) * (width - pad.left - pad.right);
    const sy = (value) => height - pad.bottom - ((value - ys[0]) / (ys[1] - ys[0])) * (height - pad.top - pad.bottom);
    const frame = svg("g", { class: "frame" });
    for (const tick of yTicks) {
      frame.append(svg("line", { x1: pad.left, x2: width - pad.right, y1: sy(tick), y2: sy(tick) }));
      frame.append(svg("text", { x: pad.left - 6, y: sy(tick) + 4, "text-anchor": "end" }, formatY(tick)));
    }
    for (const tick of xTicks) frame.append(svg("text", { x: sx(tick), y: height - pad.bottom + 17, "text-anchor": "middle" }, formatX(tick)));
    frame.append(svg("text", { x: (pad.left + width - pad.right) / 2, y: height - 4, "text-anchor": "middle", class: "axis" }, xLabel));
    if (yLabel) frame.append(svg("text", { x: 11, y: (height - pad.bottom + pad.top) / 2, class: "axis", "text-anchor": "middle",
      transform: `rotate(-90 11 ${(height - pad.bottom + pad.top) / 2})` }, yLabel));
    const marks = svg("g");
    const node = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": `${yLabel || ""} against ${xLabel}` }, frame, marks);
    return {
      node,
      show(lines, dots = []) {
        marks.replaceChildren(
          ...lines.map(({ points, colour, dashed }) => svg("path", {
            d: points.map(([a, b], index) => `${index ? "L" : "M"}${sx(a).toFixed(1)} ${sy(b).toFixed(1)}`).join(""),
            fill: "none", stroke: css(colour), "stroke-width": 2.2, "stroke-dasharray": dashed ? "5 4" : "none" })),
          ...dots.map(({ at, colour, label, anchor = "middle", shift = [0, -8], r = 4.5 }) => svg("g", {},
            svg("circle", { cx: sx(at[0]), cy: sy(at[1]), r, fill: css(colour), stroke: css(colour), "stroke-width": 2 }),
            ...(label ? [svg("text", { x: sx(at[0]) + shift[0], y: sy(at[1]) + shift[1], "text-anchor": anchor, class: "label" }, label)] : []))));
      },
    };
  }

  /** Outputs as an image: a row per sample (a strip on the left shows its class), a column per neuron. */
  function matrix(canvas, columns, labels, colours, picked) {
    const [across, down, strip, ratio] = [columns.length * 20, labels.length, 8, 2];
    canvas.width = (strip + 4 + across) * ratio;
    canvas.height = 250 * ratio;
    const context = canvas.getContext("2d");
    context.scale(ratio, canvas.height / down);
    context.fillStyle = `rgb(${rgb("silent")})`;
    context.fillRect(strip + 4, 0, across, down);
    labels.forEach((label, n) => { context.fillStyle = `rgb(${rgb(`class-${label}`)})`; context.fillRect(0, n, strip, 1.2); });
    columns.forEach((column, c) => {
      const top = Math.max(1e-9, ...column);
      const [paper, ink] = [rgb("silent"), rgb(colours[c])];
      column.forEach((value, n) => {
        if (value <= 0) return;
        context.fillStyle = `rgb(${mix(paper, ink, (value / top) ** 0.8)})`;
        context.fillRect(strip + 4 + 20 * c + 1, n, 18, 1.2);
      });
    });
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.strokeStyle = `rgb(${rgb("ink")})`;
    context.lineWidth = 1.5;
    for (const c of picked) context.strokeRect(strip + 4 + 20 * c + 0.8, 0.8, 18.4, canvas.height / ratio - 1.6);
  }

  /** Two neurons' outputs against each other, a dot per sample. */
  function scatter() {
    const marks = svg("g");
    const [across, up] = [svg("text", { x: 160, y: 252, "text-anchor": "middle" }), svg("text", { x: 10, y: 118, "text-anchor": "middle", transform: "rotate(-90 10 118)" })];
    const node = svg("svg", { viewBox: "0 0 320 256", class: "chart", role: "img", "aria-label": "Answers of the two picked neurons" },
      svg("rect", { x: 22, y: 4, width: 276, height: 230, class: "box" }), marks, across, up);
    return {
      node,
      show(a, b, labels, aName, bName) {
        const values = [...a, ...b];
        const [low, high] = [Math.min(...values), Math.max(...values)];
        const at = (value, size) => ((value - low) / (high - low || 1)) * (size - 16) + 8;
        marks.replaceChildren(svg("line", { x1: 22 + at(low, 276), y1: 234 - at(low, 230), x2: 22 + at(high, 276), y2: 234 - at(high, 230), class: "diagonal" }),
          ...a.map((value, n) => svg("circle", { cx: (22 + at(value, 276)).toFixed(1), cy: (234 - at(b[n], 230)).toFixed(1), r: 2.6, class: `dot class-${labels[n]}` })));
        across.textContent = `answer of ${aName}`;
        up.textContent = `answer of ${bName}`;
      },
    };
  }

  const SHAPES = [(r) => `M${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`, (r) => `M0 ${-1.25 * r}L${1.25 * r} 0L0 ${1.25 * r}L${-1.25 * r} 0Z`,
    (r) => `M0 ${-1.25 * r}L${1.2 * r} ${0.9 * r}L${-1.2 * r} ${0.9 * r}Z`];
  /** Neurons as points with lines to their group's target. Give assign(neuron, group) to let users drag them, or pick(neuron). */
  function groups({ assign, pick, xLabel, yLabel, width = 560, height = 430 }) {
    const pad = 44;
    const lines = svg("g"), centres = svg("g"), points = svg("g");
    const node = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart groups" },
      svg("rect", { x: 24, y: 4, width: width - 28, height: height - 28, class: "box" }),
      svg("text", { x: width / 2, y: height - 6, "text-anchor": "middle" }, xLabel),
      svg("text", { x: 12, y: height / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${height / 2})` }, yLabel), lines, points, centres);
    let picked = -1, places = [], aims = [], focus = -1;
    const toView = (event) => { const box = node.getBoundingClientRect(); return [((event.clientX - box.left) / box.width) * width, ((event.clientY - box.top) / box.height) * height]; };
    function join(j, at) {
      const distances = aims.map((aim) => (aim ? Math.hypot(aim[0] - at[0], aim[1] - at[1]) : Infinity));
      const k = distances.indexOf(Math.min(...distances));
      if (distances[k] < 60) assign(j, k);
    }
    return {
      node,
      show(list, labels, targets, scores, chosen = -1) {
        const all = [0, 1].map((axis) => list.map((neuron) => neuron.at[axis]));
        const span = all.map((values) => [Math.min(...values), Math.max(...values)]);
        const sx = (value) => 24 + pad + ((value - span[0][0]) / (span[0][1] - span[0][0])) * (width - 28 - 2 * pad);
        const sy = (value) => height - 24 - pad - ((value - span[1][0]) / (span[1][1] - span[1][0])) * (height - 28 - 2 * pad);
        places = list.map((neuron) => [sx(neuron.at[0]), sy(neuron.at[1])]);
        aims = targets.map((target) => (target ? [sx(target[0]), sy(target[1])] : null));
        // an empty group's target waits in the corner, where neurons can be dropped
        aims.forEach((aim, k) => { if (!aim && assign) aims[k] = [width - 120 + 28 * k, 24]; });
        // a single neuron would cover its target
        const isAlone = (k) => labels.filter((label) => label === k).length === 1;
        const shownAims = aims.map((aim, k) => aim && (isAlone(k) ? [aim[0] + 20, aim[1] - 18] : aim));
        lines.replaceChildren(...list.map((_, j) => svg("line", { x1: places[j][0], y1: places[j][1], x2: aims[labels[j]][0], y2: aims[labels[j]][1], class: "member" })));
        centres.replaceChildren(...shownAims.map((aim, k) => aim && svg("g", { class: "target", transform: `translate(${aim[0]} ${aim[1]})` },
          svg("rect", { x: -12, y: -11, width: 24, height: 22, rx: 4 }), svg("text", { y: 4.5, "text-anchor": "middle" }, `T${k + 1}`))).filter(Boolean));
        const hadFocus = points.contains(document.activeElement);
        points.replaceChildren(...list.map((neuron, j) => {
          const radius = 7 + 5 * Math.sqrt(Math.max(0, scores[j]) * 4) * 0.9;
          const mark = svg("g", { class: `neuron ${j === (chosen >= 0 ? chosen : picked) ? "picked" : ""}`, transform: `translate(${places[j][0]} ${places[j][1]})`, tabindex: 0,
            role: "button", "data-keys": "", "aria-label": `neuron ${neuron.name}, group ${labels[j] + 1}` },
            svg("path", { d: SHAPES[neuron.parent](radius), fill: css(`parent-${neuron.parent}`) }), svg("text", { y: 4, "text-anchor": "middle" }, neuron.name));
          mark.addEventListener("focus", () => { focus = j; });
          mark.addEventListener("keydown", (event) => {
            if (assign && /^[1-4]$/.test(event.key)) assign(j, Number(event.key) - 1);
            if (pick && (event.key === "Enter" || event.key === " ")) { event.preventDefault(); pick(j); }
          });
          mark.addEventListener("pointerdown", (down) => {
            if (pick) { pick(j); return; }
            picked = j;
            down.preventDefault();
            node.setPointerCapture(down.pointerId);
            const move = (event) => { mark.setAttribute("transform", `translate(${toView(event).join(" ")})`); };
            node.addEventListener("pointermove", move);
            const end = (event) => {
              node.removeEventListener("pointermove", move);
              mark.setAttribute("transform", `translate(${places[j].join(" ")})`);
              join(j, toView(event));
            };
            node.addEventListener("pointerup", end, { once: true });
          });
          return mark;
        }));
        if (hadFocus && focus >= 0) points.children[focus]?.focus();
      },
    };
  }

  /** Tiles to drag onto one another, or to pick by click or key. drop(from, to) and pick(index) get indices of `nodes`. */
  function draggable(nodes, { drop, pick }) {
    for (const [from, node] of nodes.entries()) {
      node.addEventListener("pointerdown", (down) => {
        if (node.disabled || down.button) return;
        let hasMoved = false;
        node.setPointerCapture(down.pointerId);
        const move = (event) => {
          const [dx, dy] = [event.clientX - down.clientX, event.clientY - down.clientY];
          hasMoved ||= Math.hypot(dx, dy) > 6;
          if (hasMoved) { node.classList.add("dragged"); node.style.transform = `translate(${dx}px, ${dy}px)`; }
        };
        const end = (event) => {
          node.removeEventListener("pointermove", move);
          node.classList.remove("dragged");
          node.style.transform = "";
          if (!hasMoved) return;
          node.addEventListener("click", (click) => click.stopImmediatePropagation(), { capture: true, once: true });
          const at = nodes.findIndex((other) => {
            const box = other.getBoundingClientRect();
            return event.clientX >= box.left && event.clientX <= box.right && event.clientY >= box.top && event.clientY <= box.bottom;
          });
          if (at >= 0 && at !== from) drop(from, at);
        };
        node.addEventListener("pointermove", move);
        node.addEventListener("pointerup", end, { once: true });
        node.addEventListener("pointercancel", end, { once: true });
      });
      node.addEventListener("click", () => pick(from));
    }
  }

  const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)}\u00a0%`;
  return { NAMES, CLASSES, maps, plane, tile, matrix, scatter, groups, draggable, chart, percent };
})();
