// Steps 3 to 5: what levels compare, grouping neurons by hand and by machine, importance.
{
  const [A, B] = World.pair;
  const LEVELS = [["1", "first layer"], ["2", "second layer"], ["3", "outputs"]];
  const columnsOf = (network, level, points) => Engine.transposed(Engine.forward(network, points)[level]);
  const distance = (a, b) => a.reduce((total, value, n) => total + (value - b[n]) ** 2, 0) / a.length;

  Tour.step({
    title: "A level, and what is compared", short: "Levels",
    state: { level: "1", i: 0, j: 0, guess: 0 },
    check: (state) => {
      const level = ["1", "2", "3"].includes(state.level) ? state.level : "1";
      const width = level === "3" ? 4 : 8;
      return { ...state, level, i: Math.abs(Math.round(state.i)) % width, j: Math.abs(Math.round(state.j)) % width };
    },
    mount(page) {
      const samples = World.samples();
      const order = samples.labels.map((label, n) => [label, n]).sort((a, b) => a[0] - b[0]).map(([, n]) => n)
        .filter((_, place) => place % 4 === 0);
      page.say(`Cut both networks into <b>levels</b>, and fuse them one after the other. A level is a layer here; in a large network it can be a whole block of layers.
        Show both networks the same ${samples.points.length} points, the <b>fusion samples</b>. Each neuron answers each sample with a number {z} (before ReLU): a neuron is a <b>column of answers</b>. (Of a convolution, a neuron is a channel, with an answer at every place of every image.)`);
      page.choice({ key: "level", label: "Level", options: LEVELS });
      // the neuron of A with the clearest look-alike in B, and two other neurons of B
      const own = columnsOf(A, 0, samples.points), other = columnsOf(B, 0, samples.points);
      const ranked = own.map((column, i) => ({ i, by: other.map((z, j) => [distance(column, z), j]).sort((a, b) => a[0] - b[0]) }));
      const clear = ranked.reduce((best, one) => (one.by[0][0] / one.by[1][0] < best.by[0][0] / best.by[1][0] ? one : best));
      const candidates = [0, 3, 7].map((place) => clear.by[place][1]).sort((a, b) => a - b);
      page.ask({
        key: "guess", shownWhen: (state) => state.level === "1", then: (index) => ({ i: clear.i, j: candidates[index] }), question: `Which neuron of B answers most like A${clear.i + 1}? Look at the maps.`,
        options: () => candidates.map((j) => {
          const isRight = j === clear.by[0][1];
          const d = clear.by.find(([, at]) => at === j)[0];
          return [`B${j + 1}`, `${isRight ? "Right: it fires in nearly the same places" : "No, it fires elsewhere"}. Mean squared difference of
            their answers: <b>${d.toFixed(2)}</b>${isRight ? "" : `; B${clear.by[0][1] + 1} has ${clear.by[0][0].toFixed(2)}`}.`, isRight];
        }),
      });
      page.say((state) => state.level === "3"
        ? "At the outputs nothing has to be found: output 1 of A and output 1 of B both mean “orange”. So classes are not grouped: the target of an output is the mean of the networks' outputs for that class."
        : "Alike means: nearly the same answers to all samples. Neither weights nor places in the layer are compared.");
      page.say("Colour: the neuron fires. Grey: below 0, where ReLU cuts it off. Pick one neuron of each network to see their answers against each other; on the diagonal both agree.", "small");

      const tiles = [0, 1].map((k) => Array.from({ length: 8 }, (_, j) => Draw.tile(`${"AB"[k]}${j + 1}`, `parent-${k}`)));
      tiles.forEach((row, k) => {
        page.figure.append(el("div", { class: "eight" }, ...row.map((tile) => tile.node)));
        row.forEach((tile, j) => tile.node.addEventListener("click", () => page.set({ [k ? "j" : "i"]: j })));
      });
      const row = page.figure.appendChild(el("div", { class: "beside" }));
      const matrix = el("canvas", { class: "matrix", role: "img", "aria-label": "All answers: a row for each sample, a column for each neuron" });
      const caption = el("figcaption", {});
      page.fill(caption, "Answers {z}: a row for every fourth sample, a column for each neuron");
      row.append(el("figure", {}, caption, matrix));
      const scatter = Draw.scatter();
      const title = el("figcaption", {});
      row.append(el("figure", {}, title, scatter.node));
      page.onUpdate(() => {
        const level = Number(page.state.level) - 1;
        const width = A.biases[level].length;
        const z = [A, B].map((network) => World.once(`columns ${network.id} ${level}`, () => columnsOf(network, level, samples.points)));
        const picked = [Math.min(page.state.i, width - 1), Math.min(page.state.j, width - 1)];
        tiles.forEach((line, k) => line.forEach((tile, j) => {
          tile.node.style.display = j < width ? "" : "none";
          if (j >= width) return;
          tile.name(level === 2 ? `${"AB"[k]} ${Draw.CLASSES[j]}` : `${"AB"[k]}${j + 1}`);
          tile.show(Draw.maps([A, B][k])[level][j]);
          tile.node.setAttribute("aria-pressed", String(picked[k] === j));
        }));
        Draw.matrix(matrix, [...z[0], ...z[1]].map((column) => order.map((n) => column[n])), order.map((n) => samples.labels[n]),
          [...z[0].map(() => "parent-0"), ...z[1].map(() => "parent-1")], [picked[0], width + picked[1]]);
        const [a, b] = [z[0][picked[0]], z[1][picked[1]]];
        scatter.show(a, b, samples.labels, tiles[0][picked[0]].text(), tiles[1][picked[1]].text());
        title.innerHTML = `${tiles[0][picked[0]].text()} against ${tiles[1][picked[1]].text()}: mean squared difference <b>${distance(a, b).toFixed(2)}</b>`;
      });
    },
  });

  // Steps 4 and 5: four neurons per network and their outputs for two samples, so that a neuron is exactly a point.
  const C = World.parents("classes", 3)[2];
  // Chosen so that marks do not overlap and k-means has something to gain.
  const FOUR = { networks: [A, B, C], level: 0, neurons: [[0, 3, 5, 7], [1, 2, 5, 6], [2, 3, 5, 7]], samples: [19, 150] };
  const twoSamples = FOUR.samples.map((n) => World.samples().points[n]);
  const neurons = FOUR.networks.flatMap((network, k) => {
    const columns = columnsOf(network, FOUR.level, twoSamples);
    return FOUR.neurons[k].map((j) => ({ name: `${"ABC"[k]}${j + 1}`, parent: k, at: columns[j] }));
  });
  const digits = (text) => [...text].map(Number);
  const cost = (list, scores, labels) => Engine.groupedCost(list.map((neuron) => neuron.at), scores, labels, 4);
  /** The groups' targets, null for an empty group. */
  function targets(list, scores, labels) {
    return [0, 1, 2, 3].map((k) => {
      const members = list.map((_, j) => j).filter((j) => labels[j] === k);
      if (!members.length) return null;
      const total = members.reduce((sum, j) => sum + scores[j], 0);
      const share = (j) => (total > 0 ? scores[j] / total : 1 / members.length);
      return [0, 1].map((axis) => members.reduce((sum, j) => sum + share(j) * list[j].at[axis], 0));
    });
  }
  const machine = (method, list, scores) => Engine.groups(method, list.map((neuron) => neuron.at), scores,
    [0, 1, 2].map((k) => list.filter((neuron) => neuron.parent === k).length).filter(Boolean), 4, { restarts: 50 });
  const isGrouping = (text, count) => text.length === count && /^[0-3]*$/.test(text);
  const START = { 2: "01230123", 3: "012301230123" };

  Tour.step({
    title: "Group them by hand", short: "Groups",
    state: { parents: 2, groups: START[2], guess: 0 },
    check: (state) => {
      const parents = state.parents === 3 ? 3 : 2;
      return { ...state, parents, groups: isGrouping(state.groups, 4 * parents) ? state.groups : START[parents] };
    },
    mount(page) {
      page.say((state) => `The fused layer has room for 4 neurons; the parents bring ${4 * state.parents}. So make 4 groups {R}. Fused neuron k stands for group {R} and
        aims at its mean, the target {T}. The <b class="grouping">grouping error</b> says how unlike the members are (all {s} are equal here):`);
      page.formula("Σ<sub>k</sub> Σ<sub>j∈{R}</sub> {s}<sub>j</sub> ‖{T} − {z}<sub>j</sub>‖²");
      page.say((state) => `<b>Drag a neuron onto another target</b> (or press 1 to 4 on it). Can you beat ${
        state.parents === 2 ? "the two methods" : "k-means"} below?`);
      const bars = page.say("", "bars");
      const list = () => neurons.slice(0, 4 * page.state.parents);
      const scores = () => list().map(() => 0.25);
      const run = (method) => page.set({ groups: machine(method, list(), scores()).labels.join("") });
      const row = page.buttons(["Hungarian", () => run("HF")], ["k-means", () => run("KF")], ["Start again", () => page.set({ groups: START[page.state.parents] })]);
      page.choice({ key: "parents", label: "Networks", options: [[2, "A and B"], [3, "A, B and C"]] });
      page.ask({
        key: "guess", question: "With three networks, or two of unequal width: which method still works?",
        options: () => [
          ["Hungarian", "No. It pairs each neuron of one network with one of the other, so it needs two networks of equal width.", false],
          ["k-means", "Right. It only asks which neurons are alike; even two of one network may share a group. Hungarian pairs one with one, so it needs two networks of equal width.", true],
          ["both", "Not Hungarian: it pairs one with one, so it needs two networks of equal width.", false]],
      });
      const picture = Draw.groups({
        assign: (j, k) => page.set({ groups: [...page.state.groups].map((label, at) => (at === j ? String(k) : label)).join("") }),
        xLabel: "answer to sample 1 (pink)", yLabel: "answer to sample 2 (blue)" });
      page.figure.append(picture.node, el("p", { class: "small" }, `Four neurons of the first layer of each network and their answers to two of the samples, so
        that a neuron is a point. With all samples the same happens in ${World.samples().points.length} dimensions.`));
      page.fill(page.figure.appendChild(el("p", {})), `<b>Hungarian</b> matching pairs each neuron of A with one of B so that all pairs together cost least. <b>k-means</b> moves targets to the means
        of their groups and neurons to the nearest target, in turn, until nothing changes.`);
      let parents = page.state.parents;
      page.onUpdate(() => {
        if (page.state.parents !== parents) { parents = page.state.parents; page.state.groups = START[parents]; }
        const labels = digits(page.state.groups);
        picture.show(list(), labels, targets(list(), scores(), labels), scores());
        const rows = [["your groups", cost(list(), scores(), labels)]];
        if (parents === 2) rows.push(["Hungarian", machine("HF", list(), scores()).cost]);
        rows.push(["k-means", machine("KF", list(), scores()).cost]);
        const most = Math.max(...rows.map(([, value]) => value));
        bars.innerHTML = rows.map(([name, value]) => `<span>${name}</span><i><u style="width:${(100 * value) / most}%"></u></i><b>${value.toFixed(2)}</b>`).join("");
        const hungarian = row.children[0];
        hungarian.disabled = parents === 3;
        hungarian.title = parents === 3 ? "Hungarian pairs exactly two networks of equal width" : "";
      });
    },
  });

  Tour.step({
    title: "Importance", short: "Importance",
    state: { picked: 0, s: "11111111", score: "conductance", guess: 0 },
    check: (state) => ({ ...state, picked: Math.abs(Math.round(state.picked)) % 8, s: /^[0-8]{8}$/.test(state.s) ? state.s : "11111111" }),
    mount(page) {
      const list = neurons.slice(0, 8);
      const raw = () => digits(page.state.s);
      const scores = () => raw().map((value) => value / 4);
      // samples of one network's data, as in the paper, or of all
      const [OF_A, ONE, ALL] = [World.samples([0, 1]), World.samples([2, 3]), World.samples()];
      const fused = (score, method = "KF", samples = ONE) => World.fuse(World.pair, { score, method }, samples);
      const [uniform, conductance] = [fused("uniform"), fused("conductance")];
      const rand = (level) => Engine.adjustedRand(uniform.levels[level].labels, conductance.levels[level].labels);
      page.say("A neuron that hardly matters to its own network should not pull the target. So each neuron has an <b>importance</b> {s}, and targets are weighted means:");
      page.formula("{T} = Σ<sub>j∈{R}</sub> {s}<sub>j</sub> {z}<sub>j</sub> / Σ<sub>j∈{R}</sub> {s}<sub>j</sub>");
      page.slider({ label: "Try it: importance of the picked neuron", min: 0, max: 8, format: (value) => `${list[page.state.picked].name}: ${value}×`,
        read: () => raw()[page.state.picked],
        write: (value) => page.set({ s: raw().map((old, j) => (j === page.state.picked ? value : old)).join("") }) });
      page.buttons(["All equal", () => page.set({ s: "11111111" })]);
      page.say(`It also decides the groups: the grouping error weighs each neuron by {s}. <b>Uniform</b> scores are all alike. <b>Conductance</b>: how much of the right class's output comes through a neuron as an empty input becomes a sample. <b>DeepLIFT</b>: the same in one step.`);
      page.choice({ key: "score", label: "Importance of all neurons (the bars)", options: [["uniform", "uniform"], ["conductance", "conductance"]] });
      page.ask({
        key: "guess", question: `k-means, uniform scores, ${ONE.points.length} samples of B's data alone: the fused network has ${Draw.percent(uniform.accuracy, 1)}. With conductance?`,
        options: () => {
          const gain = conductance.accuracy - uniform.accuracy;
          const fact = `<b>${Draw.percent(conductance.accuracy, 1)}</b>. Neurons that hardly matter stop pulling targets. (Fully trained VGG11s lose 1.2.)`;
          return [["better", `${gain > 0.01 ? "Right" : "No"}: ${fact}`, gain > 0.01], ["the same", `${Math.abs(gain) <= 0.01 ? "Right" : "No"}: ${fact}`, Math.abs(gain) <= 0.01],
            ["worse", `${gain < -0.01 ? "Right" : "No"}: ${fact}`, gain < -0.01]];
        },
      });

      const split = page.figure.appendChild(el("div", { class: "beside" }));
      const picture = Draw.groups({ width: 380, height: 330, pick: (j) => page.set({ picked: j }), xLabel: "answer to sample 1 (pink)", yLabel: "answer to sample 2 (blue)" });
      split.append(el("figure", {}, el("figcaption", {}, "Pick a neuron; turn its importance up"), picture.node));
      const right = split.appendChild(el("figure", {}, el("figcaption", {}, "First layer: the bar is the importance")));
      const tiles = [A, B].map((network, k) => {
        const line = network.biases[0].map((_, j) => Draw.tile(`${"AB"[k]}${j + 1}`, `parent-${k}`));
        right.append(el("div", { class: "four" }, ...line.map((tile) => tile.node)));
        line.forEach((tile) => { tile.node.disabled = true; });
        return line;
      });
      const planes = ["uniform", "conductance"].map((name) => Draw.plane(name, { className: "fused" }));
      right.append(el("figcaption", {}, "The fused network"), el("div", { class: "planes" }, ...planes.map((plane) => plane.node)));
      page.fill(page.figure.appendChild(el("p", {})), () => page.answered("guess") ? `How much it helps depends on the samples. With A's data alone, k-means has ${Draw.percent(fused("uniform", "KF", OF_A).accuracy, 1)} with uniform scores and
        ${Draw.percent(fused("conductance", "KF", OF_A).accuracy, 1)} with conductance. With all data, ${
        [["k-means", "KF"], ["Hungarian", "HF"]].map(([name, method]) => `${name} has ${Draw.percent(fused("uniform", method, ALL).accuracy, 1)} with uniform scores,
        ${Draw.percent(fused("conductance", method, ALL).accuracy, 1)} with conductance`).join(", ")}.<br>How differently do the two scores group? The <b>adjusted Rand index</b> of
        their groups is ${rand(0).toFixed(2)} in the first layer, ${rand(1).toFixed(2)} in the second. 1 means the same groups, 0 no more alike than by chance. It tells <em>how different</em>
        two groupings are, never which is better: fuse and measure to know that.` : "");
      const labels = machine("KF", list, list.map(() => 0.25)).labels;
      page.onUpdate(() => {
        picture.show(list, labels, targets(list, scores(), labels), scores(), page.state.picked);
        tiles.forEach((line, k) => line.forEach((tile, j) => {
          const score = World.scores([A, B][k], page.state.score)[0][j];
          tile.show(Draw.maps([A, B][k])[0][j]);
          tile.importance(8 * score);
        }));
        [uniform, conductance].forEach((fusion, index) => {
          planes[index].show(fusion.network, fusion.accuracy, "", index === 1 && !page.answered("guess"));
          planes[index].points(World.test.points, World.test.labels);
        });
      });
    },
  });
}
