// Steps 6 to 8: targets and the two errors, the fit on the fused network's own inputs, which samples.
{
  const [A, B] = World.pair;
  const PAIR = World.pair;
  const HIDDEN = [["1", "first layer"], ["2", "second layer"]];
  const number = (value) => (value >= 100 ? value.toFixed(0) : value >= 1 ? value.toFixed(2) : value === 0 ? "0" : value.toPrecision(2));

  Tour.step({
    title: "Targets, and the two errors", short: "Two errors",
    state: { level: "2", width: 5, score: "uniform", group: -1, guess: 0 },
    check: (state) => ({ ...state, level: state.level === "1" ? "1" : "2", width: Math.min(16, Math.max(3, Math.round(state.width))) }),
    mount(page) {
      const fused = (width) => World.fuse(PAIR, { score: page.state.score, widths: page.state.level === "1" ? [width, 8] : [8, width] });
      const current = () => fused(page.state.width);
      const level = () => current().levels[Number(page.state.level) - 1];
      page.say("A level's cost {J} compares each neuron of the parents with the fused neuron of its group. It splits exactly into two errors (Theorem 1 of the paper):");
      const formula = page.figure.appendChild(el("p", { class: "formula" }));
      page.fill(formula, () => {
        const { J, grouping, approximation, energy } = level();
        const share = (value) => `${(100 * value / energy).toFixed(3)} %`;
        return `{J} = Σ {s}<sub>j</sub> ‖{f} − {z}<sub>j</sub>‖² = <b class="grouping">grouping</b> + <b class="approximation">approximation</b>
          <span class="numbers">${share(J)} = ${share(grouping)} + ${share(approximation)} of Σ {s}<sub>j</sub> ‖{z}<sub>j</sub>‖².
          ${Math.abs(J - grouping - approximation) < 1e-9 * energy ? "J is computed by itself, not as this sum; the two agree." : ""}</span>
          <span class="errors"><i role="img" style="background:var(--line)" aria-label="The two errors as parts of all neurons' energy"><u class="g" style="width:${100 * grouping / energy}%"></u><u class="a" style="width:${100 * approximation / energy}%"></u></i></span>
          <span class="numbers">The bar: all answers' energy, Σ {s}<sub>j</sub> ‖{z}<sub>j</sub>‖², and what of it is lost.</span>`;
      });
      page.say(`<b class="grouping">Grouping error</b>: members of a group differ from their mean {T}.<br>
        <b class="approximation">Approximation error</b>: the fused layer cannot reach {T} from the inputs it gets.`);
      page.traps(["min over k", "The paper's Eq. 1 takes the minimum over k: each neuron is compared with its nearest fused neuron."],
        ["in %", "Of the sum of s |z|² over all neurons and samples: an error of 100 % would be as good as answering nothing."]);
      page.choice({ key: "level", label: "Level", options: HIDDEN });
      page.slider({ key: "width", label: "Fused neurons in this layer", min: 3, max: 16 });
      page.ask({
        key: "guess", question: "Give the layer 16 fused neurons, as many as both parents have. What is the grouping error?",
        options: () => {
          const { grouping, energy } = fused(16).levels[Number(page.state.level) - 1];
          const fact = `Each neuron is its own target: <b>${(100 * grouping / energy).toFixed(2)} %</b>. But the layer is twice as wide.`;
          return [["half of that with 8 neurons", `No. ${fact}`, false], ["zero", `Right. ${fact}`, true], ["the same as with 8 neurons", `No. ${fact}`, false]];
        },
      });
      page.say((state) => state.level === "1"
        ? "In the first layer all networks read the same points, so every mean of neurons can be reached."
        : "The second layer reads fused outputs, so it misses targets a little.", "small");

      const most = Math.max(...["1", "2"].map((name) => {
        const { J, energy } = World.fuse(PAIR, { score: page.state.score, widths: name === "1" ? [3, 8] : [8, 3] }).levels[name - 1];
        return 100 * J / energy;
      }));
      const stride = [1, 2, 3, 4, 5, 6, 8, 10, 20].find((one) => 4 * one >= most) || 25;
      const top = page.figure.appendChild(el("div", { class: "beside narrow" }));
      const chart = Draw.chart({ width: 460, height: 300, xs: [3, 16], ys: [0, 4 * stride], xLabel: "fused neurons in this layer", yLabel: "error, %",
        xTicks: [4, 6, 8, 10, 12, 14, 16], yTicks: [0, 1, 2, 3, 4].map((k) => k * stride) });
      const region = Draw.plane("Fused network", { className: "fused medium" });
      top.append(chart.node, region.node);
      const strip = page.figure.appendChild(el("div", { class: "members" }));
      page.onUpdate(() => {
        const at = Number(page.state.level) - 1;
        const widthsShown = Array.from({ length: 14 }, (_, index) => index + 3);
        const points = page.curve(`errors ${at}`, widthsShown, (width) => {
          const { grouping, J, energy } = fused(width).levels[at];
          return [100 * J / energy, 100 * grouping / energy];
        });
        const lines = { J: points.map(([width, [J]]) => [width, J]), grouping: points.map(([width, [, grouping]]) => [width, grouping]) };
        const { grouping, J, energy, labels, widths } = level();
        region.show(current().network, current().accuracy);
        region.points(World.test.points, World.test.labels);
        chart.show([{ points: lines.J, colour: "J" }, { points: lines.grouping, colour: "grouping", dashed: true }], [
          { at: [page.state.width, 100 * J / energy], colour: "J", label: `J ${(100 * J / energy).toFixed(1)}`, shift: page.state.width > 9 ? [0, -24] : [10, -9], anchor: page.state.width > 9 ? "end" : "start" },
          { at: [page.state.width, 100 * grouping / energy], colour: "grouping", label: `grouping ${(100 * grouping / energy).toFixed(1)}`, shift: page.state.width > 9 ? [0, -9] : [10, 9], anchor: page.state.width > 9 ? "end" : "start" }]);
        // start with the largest group that has neurons of both networks
        const width = level().width;
        const count = (k) => (labels.some((label, j) => label === k && j < widths[0]) && labels.some((label, j) => label === k && j >= widths[0])
          ? labels.filter((label) => label === k).length : 0);
        const largest = Array.from({ length: width }, (_, k) => k).reduce((best, k) => (count(k) > count(best) ? k : best), 0);
        const group = page.state.group < 0 ? largest : page.state.group % width;
        const members = labels.map((k, j) => j).filter((j) => labels[j] === group);
        const parentOf = (j) => (j < widths[0] ? 0 : 1);
        const mapOf = (j) => Draw.maps(PAIR[parentOf(j)])[at][parentOf(j) ? j - widths[0] : j];
        const A_ = level().A;
        const target = Float64Array.from(mapOf(members[0]), (_, n) => members.reduce((total, j) => total + A_[j][group] * mapOf(j)[n], 0));
        const tile = (name, colour, values) => { const one = Draw.tile(name, colour); one.show(values); one.node.disabled = true; return one.node; };
        const reached = Draw.maps(current().network)[at][group], missed = target.map((one, n) => one - reached[n]);
        const largestOf = (values) => values.reduce((most, one) => Math.max(most, Math.abs(one)), 1e-12);
        const times = Math.min(1000, 10 ** Math.max(0, Math.floor(Math.log10(largestOf(target) / largestOf(missed)))));
        const following = el("button", { type: "button", class: "action" }, "Next group");
        following.addEventListener("click", () => page.set({ group: (group + 1) % width }));
        const result = (text, node) => {
          const words = el("span", {});
          words.innerHTML = Tour.rich(text);
          return el("span", { class: "result" }, words, node);
        };
        strip.replaceChildren(el("span", {}, `Group ${group + 1} of ${width}:`),
          ...members.map((j) => tile(`${"AB"[parentOf(j)]}${(parentOf(j) ? j - widths[0] : j) + 1}`, `parent-${parentOf(j)}`, mapOf(j))),
          result("mean {T}", tile("target", "T", target)), result("reached {f}", tile("fused", "fused", reached)),
          result(`{T} − {f}${times > 1 ? `, ${times} times` : ""}`, tile("missed", "J", missed.map((one) => times * one))), following);
      });
    },
  });

  Tour.step({
    title: "The fit repairs", short: "The fit",
    state: { inputs: "fused", groups: "random", ridge: -2, neuron: 0, guess: 0 },
    check: (state) => ({ ...state, groups: state.groups === "KF" ? "KF" : "random", ridge: Math.min(1, Math.max(-6, state.ridge)), neuron: Math.abs(Math.round(state.neuron)) % 8 }),
    mount(page) {
      const fused = (inputs, method = page.state.groups, ridge = page.state.ridge) => World.fuse(PAIR, { score: "conductance", inputs, method, ridge: `${10 ** ridge}x` });
      const asked = (inputs) => fused(inputs, "random", -2).accuracy; // the question has one setting, wherever the sliders are
      page.say(`Each fused layer is fitted to its targets, <b>on the fused network's own inputs</b>, earlier errors included. So a layer
        sees what went wrong before it, and repairs what it can. For a linear layer this is least squares, solved in one step:`);
      page.formula("minimise Σ<sub>samples</sub> ({f} − {T})² + λ ‖weights‖²  <span class='numbers'>the ridge λ keeps weights small</span>");
      page.ask({
        key: "guess", question: `Even with groups drawn at random, the fit reaches ${Draw.percent(asked("fused"))}. What if each layer is fitted on the parents' inputs instead, as if nothing had gone wrong before it?`,
        options: () => {
          const [fit, other] = [asked("fused"), asked("parents")];
          const none = World.fuse(PAIR, { score: "conductance", method: "random", fit: false }).accuracy;
          const fact = `<b>${Draw.percent(other, 1)}</b> instead of ${Draw.percent(fit, 1)}. Averaging weights within the groups, without any fit, has ${Draw.percent(none, 1)}.`;
          const drop = fit - other;
          return [["better: those inputs are cleaner", `No: each layer is then fitted to inputs it never gets. ${fact}`, drop < -0.01],
            ["about the same", `${Math.abs(drop) <= 0.01 ? "Right" : "No"}: ${fact}`, Math.abs(drop) <= 0.01],
            ["worse", `${drop > 0.01 ? "Right: errors pile up, since no layer sees them" : "No"}. ${fact}`, drop > 0.01]];
        },
      });
      page.say((state) => fused("fused").accuracy < 0.9
        ? "So strong a ridge forbids the weights that the targets need: each level misses them, and none can repair that."
        : state.groups === "random" ? "After two levels the parents' last layer can hardly read the fused neurons. But the fused neurons still hold what the parents know: a last layer that is fitted to them finds it again."
        : "With good groups there is little to repair, and both ways end alike. The fit matters where grouping has gone wrong.");
      page.traps(["squared error", "The fit counts all targets alike: importance has already shaped T. Weighting the errors again would count it twice."],
        ["on the way", "After each level, the parents continue with their own later layers, fed with the fused neurons of their groups; their answers are averaged, as in an ensemble."],
        ["λ", "The paper leaves open what λ does to biases and in which unit it counts. Here biases are free, and λ is relative to the mean square of the inputs."]);
      const top = page.figure.appendChild(el("div", { class: "beside narrow" }));
      const scatter = Draw.scatter();
      const caption = el("figcaption");
      const next = el("button", { type: "button", class: "quiet" }, "next neuron");
      next.addEventListener("click", () => page.set({ neuron: (page.state.neuron + 1) % 8 }));
      top.append(el("figure", {}, caption, scatter.node));
      const region = Draw.plane("Fused network", { className: "fused medium" });
      top.append(region.node);
      const chart = Draw.chart({ width: 720, height: 165, xs: [0, 3], ys: [0, 1], xLabel: "levels fused so far", yLabel: "accuracy",
        xTicks: [0, 1, 2, 3], yTicks: [0, 0.5, 1], formatX: (x) => ["none: ensemble", "1", "2", "all"][x], formatY: (share) => Draw.percent(share) });
      const into = el("div", { class: "controls" });
      page.figure.append(chart.node, into);
      page.choice({ key: "inputs", label: "Fit each layer on", options: [["fused", "its own inputs"], ["parents", "the parents' inputs"]], into });
      page.choice({ key: "groups", label: "Groups", options: [["random", "at random"], ["KF", "by k-means"]], into });
      page.slider({ key: "ridge", label: "Ridge λ, relative", min: -6, max: 1, step: 0.25, format: (value) => (10 ** value).toPrecision(2), into });
      page.onUpdate(() => {
        const isShown = page.answered("guess");
        const inputs = isShown ? page.state.inputs : "fused";
        const fusion = fused(inputs);
        const { targets, outputs } = fusion.levels[1];
        const k = page.state.neuron % fusion.levels[1].width;
        const column = (rows) => rows.map((row) => row[k]);
        scatter.show(column(targets), column(outputs), World.samples().labels, "target", "fused neuron");
        caption.innerHTML = `${Tour.rich("Second layer, neuron")} ${k + 1}: a dot for each sample `;
        caption.append(next);
        region.show(fusion.network, fusion.accuracy, `each layer fitted on ${inputs === "fused" ? "its own" : "the parents'"} inputs`);
        region.points(World.test.points, World.test.labels);
        const lines = [["fused", "fused"], ...(isShown ? [["parents", "J"]] : [])].map(([name, colour]) => ({
          name, colour, dashed: name !== inputs, points: World.once(`way ${name} ${page.state.groups} ${page.state.ridge}`, () => World.accuracies(PAIR, fused(name)).map((value, x) => [x, value])) }));
        chart.show(lines, lines.map(({ name, colour, points }) => ({ at: points[3], colour, anchor: "end", shift: name === "fused" ? [-14, -9] : [4, 26],
          label: `${name === "fused" ? "own inputs" : "parents' inputs"} ${Draw.percent(points[3][1], 1)}` })));
      });
    },
  });

  Tour.step({
    title: "Which samples?", short: "Samples",
    state: { count: 200, score: "conductance", guess: 0 },
    check: (state) => ({ ...state, count: Math.min(400, Math.max(8, Math.round(state.count))) }),
    mount(page) {
      const SETS = [["A's classes only", [0, 1]], ["B's classes only", [2, 3]], ["all four classes", [0, 1, 2, 3]]];
      const fused = (classes) => World.fuse(PAIR, { score: page.state.score }, World.samples(classes, page.state.count));
      page.say(`Samples only make neurons answer; the fit needs no labels. So they may all come from one network's data, if the other's are private or gone:
        B's neurons answer A's points, too, and that is all that grouping and fit ask for.`);
      page.ask({
        key: "guess", question: "200 samples of A's two classes only, conductance. How accurate is the fused network on all four classes?",
        options: () => {
          const [one, all] = [[0, 1], [0, 1, 2, 3]].map((classes) => World.fuse(PAIR, { score: "conductance" }, World.samples(classes, 200)).accuracy); // at the defaults, wherever the sliders are
          const bins = [["about 50 %: A's half", 0.5], ["about 75 %", 0.75], ["over 90 %", 0.95]];
          const nearest = bins.reduce((best, bin) => (Math.abs(bin[1] - one) < Math.abs(best[1] - one) ? bin : best));
          return bins.map((bin) => [bin[0], `${bin === nearest ? "Right" : "No"}: <b>${Draw.percent(one, 1)}</b>; with samples of all classes ${Draw.percent(all, 1)}. B's knowledge
            comes through B's answers, not through B's data.`, bin === nearest]);
        },
      });
      page.slider({ key: "count", label: "Samples", min: 8, max: 400, step: 4 });
      page.choice({ key: "score", label: "Importance", options: [["uniform", "uniform"], ["conductance", "conductance"]] });
      page.say("<b>When it fails:</b> where A's samples never go, nothing is known. Neurons of B that give the same answers to all of these samples cannot be told apart, whatever they do elsewhere.");
      page.say("Conductance needs labelled points of each network's own data, once, where it was trained.", "small");
      const row = page.figure.appendChild(el("div", { class: "planes three" }));
      const planes = SETS.map(([name], index) => Draw.plane(name, { className: ["parent-0", "parent-1", "fused"][index] })); // so are lines
      row.append(...planes.map((plane) => plane.node));
      const chart = Draw.chart({ width: 720, height: 170, xs: [0, 400], ys: [0.6, 1.02], xLabel: "samples", yLabel: "accuracy", xTicks: [8, 100, 200, 300, 400], yTicks: [0.6, 0.8, 1],
        formatY: (share) => Draw.percent(share) });
      page.figure.append(chart.node);
      const counts = [8, 16, 32, 60, 100, 200, 300, 400];
      page.onUpdate(() => {
        const isShown = page.answered("guess");
        SETS.forEach(([, classes], index) => {
          const data = World.samples(classes, page.state.count);
          planes[index].show(fused(classes).network, fused(classes).accuracy, `dots: the ${data.points.length} samples`, !isShown && index < 2);
          planes[index].points(data.points, data.labels);
        });
        const ensemble = World.accuracy(PAIR);
        const lines = SETS.map(([, classes], index) => ({ colour: ["parent-0", "parent-1", "fused"][index], points: !isShown && index < 2 ? []
          : page.curve(`samples ${classes} ${page.state.score}`, counts, (count) => World.fuse(PAIR, { score: page.state.score }, World.samples(classes, count)).accuracy) }));
        chart.show([{ points: [[0, ensemble], [400, ensemble]], colour: "ensemble", dashed: true }, ...lines],
          [{ at: [30, ensemble], colour: "ensemble", label: "ensemble", shift: [0, -5], r: 0 },
            ...SETS.map(([, classes], index) => ({ at: [page.state.count, fused(classes).accuracy], colour: lines[index].colour })).filter((_, index) => isShown || index === 2)]);
      });
    },
  });
}
