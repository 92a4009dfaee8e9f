// The tour's networks and points, and fusions of them, each computed once.
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

  /** The first `count` networks trained in one way: "classes", "skewed" or "all". */
  const parents = (regime = "classes", count = 2, width = 8) => PARENTS.parents[regime][width].slice(0, count);
  const pair = parents();
  /** The classes that a network saw most. */
  const classesOf = (network) => {
    const counts = [0, 1, 2, 3].map((label) => network.saw.seen.filter((seen) => seen === label).length);
    return counts.map((count, label) => [count, label]).filter(([count]) => count === Math.max(...counts)).map(([, label]) => label);
  };

  /** Fusion samples: `count` points of some classes. */
  const samples = (classes = [0, 1, 2, 3], count = 320) => once(`samples ${classes} ${count}`, () => Engine.data(PARENTS.samples.seed, count, classes));

  /** The points for measuring a network's importance: its training data. */
  const ownPoints = (network) => once(`own ${network.id}`, () => Engine.data(network.saw.seed, network.saw.count, network.saw.seen));

  /** Test accuracy of one network, or of several as an ensemble. */
  const accuracy = (networks) => Engine.accuracy(Engine.ensemble([networks].flat(), test.points), test.points, test.labels);

  const scores = (network, score) => once(`scores ${network.id} ${score}`, () => {
    const { points, labels } = ownPoints(network);
    return Engine.importance(network, points, labels, score);
  });

  /** A fusion with its accuracy; takes a score's name and the `options` of Engine.fuse. */
  function fuse(networks, { score = "uniform", ...options } = {}, data = samples()) {
    const names = networks.map((network) => network.id).join(" ");
    return once(`fuse ${names} ${score} ${data.points.length} ${data.labels.slice(0, 9)} ${JSON.stringify(options)}`, () => {
      const fusion = Engine.fuse(networks, data.points, { scores: networks.map((network) => scores(network, score)), ...options });
      return { ...fusion, accuracy: accuracy(fusion.network) };
    });
  }

  /** Accuracies on the way: the ensemble's; after each level that of the parents' remaining layers as an ensemble, fed with the
   * fused neurons of their groups; last the fused network's. */
  function accuracies(networks, fusion) {
    const outputs = Engine.forward(fusion.network, test.points);
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
