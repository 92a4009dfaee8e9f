// Steps 1 and 2: two networks with half the knowledge each, and why averaging their weights fails.
{
  const [A, B] = World.pair;
  const path = (a, b, count = 41) => Array.from({ length: count }, (_, i) => {
    const t = i / (count - 1);
    return [t, World.accuracy(Engine.interpolate(a, b, t))];
  });
  const accuracyChart = (xLabel, ends) => Draw.chart({
    width: 720, height: 170, xs: [0, 1], ys: [0, 1], xLabel, yLabel: "accuracy", xTicks: [0, 0.5, 1], yTicks: [0, 0.5, 1],
    formatX: (t) => ends[2 * t], formatY: (share) => Draw.percent(share) });

  Tour.step({
    title: "Two half-blind networks", short: "Two networks",
    state: { t: 0.5, guess: 0 },
    mount(page) {
      const half = World.accuracy(Engine.average([A, B]));
      const ensemble = World.accuracy([A, B]);
      page.say(`There are four classes of points in the plane. Network <b class="a">A</b> was trained on the orange and green ones only,
        network <b class="b">B</b> on the blue and pink ones only. Each is right about its half and wrong about the other.`);
      page.say(`<b>Fusion</b> wants one network of the same size that knows what both know. Both have the same shape: two inputs, two layers of
        8 neurons, an output for each class. So the simplest idea is to average their weights, number by number.`);
      page.ask({
        key: "guess", question: "How accurate is the average, halfway between A and B?",
        options: () => {
          const fact = `The average has <b>${Draw.percent(half, 1)}</b>; A alone has ${Draw.percent(World.accuracy(A), 1)}.`;
          const [low, high] = [0.47, 0.85];
          return [["nearly 100 %", `${half > high ? "Right" : "No"}. That would be the sum of both, but nobody made the two use their neurons for the same things. ${fact}`, half > high],
            ["about 75 %", `${half > 0.6 && half <= high ? "Right" : "No"}. Half of the knowledge of each? Weights are not knowledge: mixing them mixes unrelated neurons. ${fact}`, half > 0.6 && half <= high],
            ["about 50 %, like A or B", `${half >= low && half <= 0.6 ? "Right" : "No"}. For that it would have to keep all that one of them knows. ${fact}`, half >= low && half <= 0.6],
            ["less than either", `${half < low ? "Right" : "No"}. Mixing weights mixes unrelated neurons. ${fact}`, half < low]];
        },
      });
      page.slider({ key: "t", label: "From A (left) to B (right)", min: 0, max: 1, step: 0.01,
        format: (t) => (t === 0 ? "A" : t === 1 ? "B" : `${Draw.percent(1 - t)} A + ${Draw.percent(t)} B`) });
      page.say(() => page.answered("guess")
        ? `Asking both and averaging their <em>answers</em>, the <b>ensemble</b>, has ${Draw.percent(ensemble, 1)}: the knowledge
           is there. But an ensemble keeps both networks and runs both. Fusion wants a single one.`
        : "", "reveal");
      const row = page.figure.appendChild(el("div", { class: "planes three" }));
      const planes = [Draw.plane("Network A", { className: "parent-0" }), Draw.plane("Average"), Draw.plane("Network B", { className: "parent-1" })];
      row.append(...planes.map((plane) => plane.node));
      const chart = accuracyChart("weights", ["A", "halfway", "B"]);
      const cover = el("p", { class: "hidden-until" }, "What is between A and B? Answer the question to see it.");
      page.figure.append(chart.node, cover);
      let line = null;
      page.onUpdate(() => {
        const isShown = page.answered("guess");
        for (const [index, network] of [[0, A], [2, B]])
          planes[index].show(network, World.accuracy(network), `saw ${World.classesOf(network).map((c) => Draw.CLASSES[c]).join(" and ")}`);
        for (const plane of planes) plane.points(World.test.points, World.test.labels);
        const mixed = Engine.interpolate(A, B, page.state.t);
        planes[1].show(mixed, World.accuracy(mixed), isShown ? "one network: the weights, mixed" : "", !isShown);
        chart.node.style.display = isShown ? "" : "none";
        cover.style.display = isShown ? "none" : "";
        if (!isShown) return;
        line ||= path(A, B);
        chart.show([{ points: [[0, ensemble], [1, ensemble]], colour: "ensemble", dashed: true }, { points: line, colour: "average" }], [
          { at: [0, World.accuracy(A)], colour: "parent-0" }, { at: [1, World.accuracy(B)], colour: "parent-1" },
          { at: [page.state.t, World.accuracy(mixed)], colour: "average", label: Draw.percent(World.accuracy(mixed)), r: 6 },
          { at: [0.04, ensemble], colour: "ensemble", label: `ensemble ${Draw.percent(ensemble)}`, shift: [0, -6], anchor: "start", r: 0 }]);
      });
    },
  });

  const SHUFFLED = "43507612";
  const digits = (text) => [...text].map(Number);
  /** A random order in which no neuron is in its own place. */
  function shuffled() {
    const order = digits("01234567");
    do {
      for (let i = 7; i > 0; i--) {
        const j = Math.floor(Math.random() * (i + 1));
        [order[i], order[j]] = [order[j], order[i]];
      }
    } while (order.some((neuron, place) => neuron === place));
    return order.join("");
  }

  Tour.step({
    title: "Why averaging fails", short: "Order",
    state: { view: "copy", order: SHUFFLED, guess: 0 },
    check: (state) => ({ ...state, order: [...state.order].sort().join("") === "01234567" ? state.order : SHUFFLED }),
    mount(page) {
      const names = digits("12345678");
      const matched = bestOrder();
      page.say(`The order of neurons means nothing. Shuffle A's first layer, and the weights that read it, and the network computes the same.
        But an average adds up what is in the <em>same place</em>.`);
      page.choice({ key: "view", label: "Average A with", options: [["copy", "a shuffled copy of A"], ["other", "B, in its best order"]] });
      page.ask({
        key: "guess", shownWhen: (state) => state.view === "copy", question: "A and its shuffled copy are equally accurate. How accurate is their average?",
        options: () => {
          const value = World.accuracy(Engine.average([A, Engine.permute(A, 0, digits(SHUFFLED))]));
          const same = World.accuracy(A);
          return [
            ["the same, of course", `No: in each place it mixes two unrelated neurons. <b>${Draw.percent(value, 1)}</b> instead of ${Draw.percent(same, 1)}.`, value > same - 0.02],
            ["much less", `Right: in each place it mixes two unrelated neurons. <b>${Draw.percent(value, 1)}</b> instead of ${Draw.percent(same, 1)}.`, value <= same - 0.02]];
        },
      });
      page.say((state) => state.view === "copy"
        ? "Drag the copy's neurons below A's look-alikes (or pick one, then another: they change places). It may get worse on the way, but with all eight in place the dip is gone."
        : `Here B's neurons are in the order that matches A best (the Hungarian method finds it). That helps: ${Draw.percent(World.accuracy(Engine.average([A, B])), 1)} became
           ${Draw.percent(World.accuracy(Engine.average([A, matched[2]])), 1)}. But the ensemble has ${Draw.percent(World.accuracy([A, B]), 1)}. <b>A and B do not have the same neurons</b>:
           A never learnt what tells blue from pink. Order is not enough; neurons have to be <em>combined</em>.`);
      const sorting = page.buttons(["Sort for me", () => page.set({ order: "01234567" })], ["Shuffle again", () => page.set({ order: shuffled() })]);
      page.say("Each little map is one neuron over the plane: coloured where it fires, grey where it is silent.", "small");

      const box = page.figure.appendChild(el("div", { class: "pairs" }));
      const mine = names.map((name) => Draw.tile(`A${name}`, "parent-0"));
      const theirs = names.map((name) => Draw.tile(String(name), "parent-1"));
      mine.forEach((tile) => { tile.node.disabled = true; });
      box.append(el("p", { class: "small" }, "A, first layer"), el("div", { class: "eight" }, ...mine.map((tile) => tile.node)));
      const label = box.appendChild(el("p", { class: "small" }));
      box.append(el("div", { class: "eight" }, ...theirs.map((tile) => tile.node)));
      const chart = accuracyChart("weights", ["A", "halfway", "other"]);
      page.figure.append(chart.node);
      const below = page.figure.appendChild(el("p", { class: "small" }));
      let picked = -1;
      const swap = (i, j) => {
        const order = [...page.state.order];
        [order[i], order[j]] = [order[j], order[i]];
        picked = -1;
        page.set({ order: order.join("") });
      };
      Draw.draggable(theirs.map((tile) => tile.node), {
        drop: (from, to) => { if (page.state.view === "copy") swap(from, to); },
        pick: (index) => {
          if (page.state.view !== "copy") return;
          if (picked >= 0 && picked !== index) { swap(picked, index); return; }
          picked = picked === index ? -1 : index;
          page.set({});
        },
      });
      page.onUpdate(() => {
        const isCopy = page.state.view === "copy";
        sorting.style.display = isCopy ? "" : "none";
        const order = isCopy ? digits(page.state.order) : matched[0];
        const other = isCopy ? Engine.permute(A, 0, order) : matched[2];
        const source = isCopy ? A : B;
        label.textContent = isCopy ? "the copy, first layer: what is below A1 is averaged with A1" : "B, first layer, in its best order";
        mine.forEach((tile, j) => tile.show(Draw.maps(A)[0][j]));
        theirs.forEach((tile, place) => {
          tile.show(Draw.maps(source)[0][order[place]], isCopy ? "parent-0" : "parent-1");
          tile.name(isCopy ? `A${order[place] + 1}` : `B${order[place] + 1}`);
          tile.node.disabled = !isCopy;
          tile.node.setAttribute("aria-pressed", String(picked === place));
        });
        const line = World.once(`path ${isCopy} ${page.state.order}`, () => path(A, other, 21));
        const half = line[10][1];
        const isShown = page.answered("guess");
        chart.show(isShown ? [{ points: line, colour: "average" }] : [], [
          { at: [0, line[0][1]], colour: "parent-0" }, { at: [1, line[20][1]], colour: isCopy ? "parent-0" : "parent-1" },
          ...(isShown ? [{ at: [0.5, half], colour: "average", label: `average ${Draw.percent(half, 1)}`, r: 6, shift: [0, half > 0.45 ? -14 : 22] }] : [])]);
        const right = order.filter((j, place) => j === place).length;
        below.textContent = isCopy ? `${right} of 8 neurons in their place.` : `B in its own order: ${Draw.percent(World.accuracy(Engine.average([A, B])), 1)}.`;
      });
    },
  });

  /** The orders of B's two hidden layers that match A best on the samples, layer by layer, and B in these orders. */
  function bestOrder() {
    const { points } = World.samples();
    const found = [];
    let network = B;
    for (const level of [0, 1]) {
      const columns = [A, network].flatMap((net) => Engine.transposed(Engine.forward(net, points)[level]));
      const { labels } = Engine.groups("HF", columns, new Array(16).fill(1 / 8), [8, 8], 8);
      const order = Array.from({ length: 8 }, (_, k) => labels.indexOf(k, 8) - 8);
      network = Engine.permute(network, level, order);
      found.push(order);
    }
    return [...found, network];
  }
}
