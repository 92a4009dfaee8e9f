// The networks and points of the tour, and fusions of them, each computed once.
const embedded = (name) => JSON.parse(document.getElementById(name).textContent);
const PARENTS = embedded("parents");
const MEASURED = embedded("measured");

const World = (() => {
  const test = Engine.data(PARENTS.test.seed, PARENTS.test.count);
  const cache = new Map();
  const once = (key, compute) => cache.get(key) ?? cache.set(key, compute()).get(key);
  const has = (key) => cache.has(key);
  for (const [regime, widths] of Object.entries(PARENTS.parents)) {
    for (const [width, networks] of Object.entries(widths)) for (const network of networks) network.id = `${regime} ${width} ${network.name}`;
  }

  /** The first `count` networks that were trained in this way: "classes", "skewed" or "all". */
  const parents = (regime = "classes", count = 2, width = 8) => PARENTS.parents[regime][width].slice(0, count);
  const pair = parents();
  /** The classes that a network saw most of. */
  const classesOf = (network) => {
    const counts = [0, 1, 2, 3].map((label) => network.saw.seen.filter((seen) => seen === label).length);
    return counts.map((count, label) => [count, label]).filter(([count]) => count === Math.max(...counts)).map(([, label]) => label);
  };

  /** Fusion samples: `count` points of some classes. */
  const samples = (classes = [0, 1, 2, 3], count = 320) => once(`samples ${classes} ${count}`, () => Engine.data(PARENTS.samples.seed, count, classes));

  /** What a network's importance is measured on: points of the kind that it was trained on. */
  const ownPoints = (network) => once(`own ${network.id}`, () => Engine.data(network.saw.seed, network.saw.count, network.saw.seen));

  const flat = Float64Array.from(test.points.flat());
  const share = (classes) => classes.reduce((right, label, n) => right + (label === test.labels[n]), 0) / test.labels.length;
  /** Of one network, or of several as an ensemble, on the test points. */
  const accuracy = (networks) => share(Engine.regions(networks, flat).classes);

  const scores = (network, score) => once(`scores ${network.id} ${score}`, () => {
    const { points, labels } = ownPoints(network);
    return Engine.importance(network, points, labels, score);
  });

  /** A fusion with its accuracy; `options` as Engine.fuse takes them, and the name of a score. */
  function fuse(networks, { score = "uniform", ...options } = {}, data = samples()) {
    const names = networks.map((network) => network.id).join(" ");
    return once(`fuse ${names} ${score} ${data.points.length} ${data.labels.slice(0, 9)} ${JSON.stringify(options)}`, () => {
      const fusion = Engine.fuse(networks, data.points, { scores: networks.map((network) => scores(network, score)), ...options });
      return { ...fusion, accuracy: accuracy(fusion.network) };
    });
  }

  /** Accuracies on the way: the ensemble's, then with the levels so far fused, each parent going on from the fused neurons that
   * stand for its own, as an ensemble; the last is the fused network's. */
  function accuracies(networks, fusion) {
    const outputs = Engine.forward(fusion.network, test.points).levels;
    const between = fusion.levels.slice(0, -1).map(({ labels }, level) => {
      let first = 0;
      const each = networks.map((network) => {
        const groups = labels.slice(first, first += network.biases[level].length);
        const inputs = outputs[level].map((row) => groups.map((k) => Math.max(0, row[k])));
        const rest = { weights: network.weights.slice(level + 1), biases: network.biases.slice(level + 1) };
        return Engine.probabilities(Engine.outputs(rest, inputs));
      });
      const mean = each[0].map((row, n) => row.map((_, c) => each.reduce((total, rows) => total + rows[n][c], 0)));
      return Engine.accuracy(mean, test.points, test.labels);
    });
    return [accuracy(networks), ...between, fusion.accuracy];
  }

  return { test, parents, pair, classesOf, samples, scores, accuracy, accuracies, fuse, once, has };
})();
