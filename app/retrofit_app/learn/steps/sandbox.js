// Step 9: everything at once, to play with, and which method when.
{
  // Which method when, with accuracies in % of the project's records (measured.json): VGG11s on CIFAR-10.
  const { skewed, sharded, four, same } = MEASURED;
  const value = (number) => number.toFixed(1);
  const ADVICE = [
    ["Networks that saw different data", "<b>KF-Linear</b>: 6 seconds on two cores; any number of networks, any widths; fifty samples without labels. <b>Conductance</b> (with labels, of each network's own data) brings 2 to 9 points to networks that were trained briefly, and -1.2 to +1.6 to fully trained ones",
      [["shares of classes differ", skewed.best, skewed.kf, skewed.ensemble], ["five classes each", sharded.best, sharded.kf, sharded.ensemble]]],
    ["The same, two networks of equal width", "<b>HF-Linear with conductance</b>: nearly as good; pairs are easy to read", [["shares differ", skewed.best, skewed.hf, skewed.ensemble]]],
    ["Levels that are not linear, time to spare", "<b>KF-Gradient</b>: the same groups, but gradient descent fits each level, also whole blocks of layers, in 203 seconds", [["shares differ", skewed.best, skewed.gradient, skewed.ensemble]]],
    ["ResNets and ViTs", "<b>KF-Linear with uniform scores</b>, HF-Linear if deep with BatchNorm: layers of one residual stream share their groups, heads are grouped whole", []],
    ["You cannot tell", "<b>Auto</b>: tries up to four fusions and keeps the best of them and the parents on samples that no fusion was fitted to", []],
    ["One network far better than the rest", "<b>Compare with the best one first.</b> Groups by activity help", [["four, KF-Linear", four.best, four.kf, four.ensemble], ["by activity", four.best, four.activity, four.ensemble]]],
    ["Networks that all saw the same data", "<b>Keep the best</b>, or the ensemble. KF-Linear fails here; grouping by activity and repairing targets lose less", [["KF-Linear, uniform", same.best, same["kf uniform"], same.ensemble],
      ["by activity, repaired", same.best, same["activity repair"], same.ensemble]]],
    ["Fine-tuned from one common start", "<b>Averaging weights</b> can be enough: their neurons still correspond. Never for networks trained apart", [["trained apart, to compare", skewed.best, skewed.average, skewed.ensemble]]],
    ["Memory and time to run all networks", "<b>The ensemble</b>: nothing in this table beats it", []],
  ];
  const SHEET = `<table><thead><tr><th>Your networks</th><th>Use</th><th>Measured</th><th class="number">best parent</th><th class="number">fused</th><th class="number">ensemble</th></tr></thead><tbody>${
    ADVICE.map(([networks, use, rows]) => (rows.length ? rows : [["", null, null, null]]).map(([name, ...numbers], index) => `<tr>${
      index ? "" : `<td rowspan="${rows.length || 1}">${networks}</td><td rowspan="${rows.length || 1}">${use}</td>`}<td>${name}</td>${
      numbers.map((number, at) => `<td class="number">${number === null ? "" : at === 1 ? `<b>${value(number)}</b>` : value(number)}</td>`).join("")}</tr>`).join("")).join("")}</tbody></table>
    <p class="small"><b>KF</b>: groups by k-means. <b>HF</b>: pairs by Hungarian matching. <b>Linear</b>: fit by least squares. <b>DeepLIFT</b> does as well as conductance on these pairs, with fewer passes, but only in chains of plain modules. <b>By activity</b>: neurons are compared after ReLU. <b>Repaired</b>: targets are stretched to vary as much as the
    neurons they stand for. The fused network then costs what one network costs, the ensemble what all do. Accuracies in % on the 10,000 test images of CIFAR-10: VGG11 networks of full width (pairs whose shares differ) or half, trained for 8 to 30 epochs; 400 fusion samples of the first one's data. Fusions of pairs with different data are means of three, the others single ones.
    The method is from “Model Fusion via Retrofitting”; that paper's networks are better trained and its numbers higher, and its order of methods is nearly this one.</p>`;
  const METHODS = [["KF", "k-means (KF)"], ["HF", "Hungarian (HF)"], ["random", "random groups"], ["same-index", "same place"]];
  const REGIMES = [["classes", "two classes each"], ["skewed", "skewed shares"], ["all", "all data"]];
  const START = { view: "play", regime: "classes", parents: 2, width: 8, method: "KF", score: "conductance", head: "scores", fused: 8, from: "all", count: 200, ridge: -2, fit: true };

  Tour.step({
    title: "Sandbox and cheat sheet", short: "Sandbox",
    state: START, layout: "full",
    check: (state) => ({
      ...state,
      view: state.view === "sheet" ? "sheet" : "play",
      regime: REGIMES.some(([name]) => name === state.regime) ? state.regime : "classes",
      method: METHODS.some(([name]) => name === state.method) ? state.method : "KF",
      score: ["uniform", "conductance", "deeplift"].includes(state.score) ? state.score : "conductance",
      head: state.head === "ensemble" ? "ensemble" : "scores",
      from: ["all", "A"].includes(state.from) ? state.from : "all",
      parents: Math.min(4, Math.max(2, Math.round(state.parents))), width: state.width === 12 ? 12 : 8,
      fused: Math.min(24, Math.max(2, Math.round(state.fused))), count: Math.min(400, Math.max(8, Math.round(state.count))),
      ridge: Math.min(1, Math.max(-6, state.ridge)),
    }),
    mount(page) {
      const networks = (state) => World.parents(state.regime, state.parents, state.width);
      const obstacle = (method) => (state) => Engine.whyNot(method, networks(state).map((network) => network.biases[0].length), state.fused);
      page.choice({ key: "view", label: "", options: [["play", "Sandbox"], ["sheet", "Which method when"]] });
      page.say((state) => state.view === "play" ? "In short: run all networks on the samples, group their neurons, average each group, fit the fused layer; then the next level. Two toy networks fuse easily, even if both saw the same data; for large ones see “Which method when”." : "", "small");
      const into = page.figure.appendChild(el("div", { class: "controls" }));
      page.choice({ key: "regime", label: "The networks saw", options: REGIMES, into });
      page.choice({ key: "parents", label: "How many", options: [[2, "2"], [3, "3"], [4, "4"]], into });
      page.choice({ key: "width", label: "Their width", options: [[8, "8"], [12, "12"]], into });
      page.choice({ key: "method", label: "Groups", options: METHODS.map(([name, label]) => [name, label, obstacle(name)]), into });
      page.choice({ key: "score", label: "Importance", options: [["uniform", "uniform"], ["conductance", "conductance"], ["deeplift", "DeepLIFT"]], into });
      page.choice({ key: "head", label: "Head: outputs are fitted to", options: [["scores", "mean of logits"], ["ensemble", "the ensemble's answer", (state) => (state.fit ? "" : "Without a fit, outputs are averages in groups.")]], into });
      page.choice({ key: "from", label: "Samples of", options: [["all", "all classes"], ["A", "A's classes"]], into });
      page.choice({ key: "fit", label: "Fit", options: [[true, "least squares"], [false, "none: average in groups"]], into });
      page.slider({ key: "fused", label: "Fused neurons per layer", min: 2, max: 24, into });
      page.slider({ key: "count", label: "Samples", min: 8, max: 400, step: 4, into });
      page.slider({ key: "ridge", label: "Ridge λ", min: -6, max: 1, step: 0.25, format: (value) => (10 ** value).toPrecision(2), into });
      const copy = page.buttons(
        ["Start again", () => page.set(START)],
        ["Copy link", (button) => {
          navigator.clipboard?.writeText(Tour.link());
          button.textContent = "Copied";
          setTimeout(() => { button.textContent = "Copy link"; }, 1500);
        }]);
      const sheet = el("div", { class: "sheet" });
      sheet.innerHTML = SHEET;
      const play = el("div", { class: "play" });
      const planes = el("div", { class: "planes row-of" });
      const bars = el("div", { class: "errors" });
      const problem = el("p", { class: "hidden-until" });
      play.append(planes, problem, bars);
      page.figure.append(play, sheet);
      let drawn = [];
      page.onUpdate(() => {
        const { state } = page;
        const isPlay = state.view === "play";
        play.style.display = into.style.display = copy.style.display = isPlay ? "" : "none";
        sheet.style.display = isPlay && page.live ? "none" : ""; // a handout has both
        if (!isPlay) return;
        const parents = networks(state);
        const count = parents.length;
        if (drawn.length !== count + 3) {
          drawn = [...parents.map((_, k) => Draw.plane(Draw.NAMES[k], { className: `parent-${k}` })),
            Draw.plane("Average"), Draw.plane("Fused", { className: "fused" }), Draw.plane("Ensemble")];
          planes.style.setProperty("--across", drawn.length);
          planes.replaceChildren(...drawn.map((plane) => plane.node));
        }
        parents.forEach((network, k) => {
          const names = World.classesOf(network).map((c) => Draw.CLASSES[c]).join(", ");
          drawn[k].show(network, World.accuracy(network), { classes: `saw ${names}`, skewed: `mostly ${names}`, all: "saw everything" }[state.regime]);
        });
        const average = Engine.average(parents);
        drawn[count].show(average, World.accuracy(average));
        drawn[count + 2].show(parents, World.accuracy(parents), `${count} networks`);
        for (const plane of drawn) plane.points(World.test.points, World.test.labels);
        const reason = obstacle(state.method)(state);
        problem.style.display = reason ? "" : "none";
        problem.textContent = reason;
        bars.replaceChildren();
        if (reason) { drawn[count + 1].show([], null, "", true); return; }
        const data = World.samples(state.from === "A" ? World.classesOf(parents[0]) : [0, 1, 2, 3], state.count);
        const fusion = World.fuse(parents, { method: state.method, score: state.score, head: state.head, width: state.fused, ridge: `${10 ** state.ridge}x`, fit: state.fit }, data);
        drawn[count + 1].show(fusion.network, fusion.accuracy, "one network");
        const way = World.accuracies(parents, fusion);
        bars.append(...fusion.levels.map(({ grouping, approximation, energy }, level) => {
          const share = (value) => (100 * value) / energy;
          const row = el("p", {});
          row.innerHTML = `<span>level ${level + 1}</span><i><u class="g" style="width:${Math.min(100, share(grouping))}%"></u><u class="a" style="width:${Math.min(100, share(approximation))}%"></u></i>
            <b>${share(grouping).toFixed(1)} % + ${share(approximation).toFixed(1)} %</b><span>accuracy then ${Draw.percent(way[level + 1], 1)}</span>`;
          return row;
        }));
        const head = el("p", { class: "small" });
        head.innerHTML = `Errors in %: <b class="grouping">grouping</b> + <b class="approximation">approximation</b>. At the outputs (level 3): how much the networks disagree about a class${state.head === "ensemble" ? "; here all have the ensemble's answer, the log of the networks' mean probabilities" : ""}. Conductance gives nearly no weight to classes that a network never saw.`;
        bars.prepend(head);
      });
    },
  });
}
