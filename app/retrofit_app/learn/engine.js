/* The method on small networks, live in the browser: retrofit_core's computations in plain JavaScript and float64.
 * docs/method.md defines them exactly; tests/learn compares every number here with retrofit_core.
 *
 * A network is {weights: [W1, W2, ...], biases: [b1, b2, ...]}; W is an array of rows (outputs x inputs). ReLU follows every
 * level but the last. A level is "ReLU of its input (not at the first level), then one linear layer", so
 * its outputs Z are pre-activations and its inputs X are activations. Matrices are arrays of rows; points are [x, y]; labels
 * are whole numbers.
 *
 * Legend: N samples, p inputs of a level, m neurons of all parents side by side, d fused neurons, s (m) scores, R_k group k,
 * S_k the sum of s over R_k, A (m x d) holds s_j / S_k, T = Z A the targets, V (p + 1 x d) the fused weights, bias last.
 */
const Engine = (() => {
  "use strict";

  // ---- numbers ------------------------------------------------------------------------------------------------------

  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const range = (count) => Array.from({ length: count }, (_, index) => index);
  const zeros = (rows, columns) => range(rows).map(() => new Array(columns).fill(0));
  const argmax = (values) => values.reduce((best, value, index) => (value > values[best] ? index : best), 0);
  const transposed = (matrix) => matrix[0].map((_, column) => matrix.map((row) => row[column]));
  const withOne = (row) => [...row, 1];

  /** A B for arrays of rows. */
  function product(left, right) {
    const columns = right[0].length;
    return left.map((row) => {
      const out = new Array(columns).fill(0);
      for (let i = 0; i < row.length; i++) {
        const value = row[i];
        if (value === 0) continue;
        const other = right[i];
        for (let j = 0; j < columns; j++) out[j] += value * other[j];
      }
      return out;
    });
  }

  /** A' B: sums over rows. */
  function crossProduct(left, right) {
    const out = zeros(left[0].length, right[0].length);
    for (let n = 0; n < left.length; n++) {
      for (let i = 0; i < out.length; i++) {
        const value = left[n][i];
        if (value === 0) continue;
        for (let j = 0; j < right[n].length; j++) out[i][j] += value * right[n][j];
      }
    }
    return out;
  }

  /** |left - right|^2. */
  function squaredDistance(left, right) {
    let total = 0;
    for (let i = 0; i < left.length; i++) total += (left[i] - right[i]) ** 2;
    return total;
  }

  /** Draws from [0, 1); a seed gives the same draws in every language (mulberry32). */
  function random(seed) {
    let state = seed >>> 0;
    return () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let t = state;
      t = Math.imul(t ^ (t >>> 15), t | 1);
      t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
  }

  const PLACES = [0, 2, 1, 3]; // quarters of a turn: 0 and 1 face each other, 2 and 3 are between them

  /** The task, as in train.py: eight bent arms, two of each of four classes.
   * @param seen classes, cycled
   * @returns {points, labels} */
  function data(seed, count, seen = [0, 1, 2, 3]) {
    const draw = random(seed), points = [], labels = [];
    for (let n = 0; n < count; n++) {
      const label = seen[n % seen.length], arm = Math.floor(n / seen.length) % 2, radius = 0.3 + 0.7 * Math.sqrt(draw());
      const angle = 2 * Math.PI * ((PLACES[label] / 4 + arm) / 2 + 0.12 * (radius - 0.3)), spread = 0.06 * (0.5 + 0.5 * radius);
      const x = radius * Math.cos(angle) + spread * 2 * (draw() + draw() + draw() - 1.5);
      const y = radius * Math.sin(angle) + spread * 2 * (draw() + draw() + draw() - 1.5);
      points.push([x, y].map((value) => Math.floor(2 * value * 1e4 + 0.5) / 1e4));
      labels.push(label);
    }
    return { points, labels };
  }

  // ---- networks -----------------------------------------------------------------------------------------------------

  const widthsOf = (network) => network.biases.map((bias) => bias.length);

  const relu = (rows) => rows.map((row) => row.map((value) => (value > 0 ? value : 0)));

  /** [Z1, Z2, ...] for the points; Z (N x width) holds a level's pre-activations, the last the logits. */
  function forward(network, points) {
    let before = points;
    return network.weights.map((W, level) => {
      const Z = product(before, transposed(W));
      for (const row of Z) network.biases[level].forEach((bias, j) => { row[j] += bias; });
      before = relu(Z);
      return Z;
    });
  }

  const outputs = (network, points) => forward(network, points).at(-1);

  /** Softmax of rows of logits. */
  function probabilities(logits) {
    return logits.map((row) => {
      const most = Math.max(...row), parts = row.map((value) => Math.exp(value - most)), total = sum(parts);
      return parts.map((part) => part / total);
    });
  }

  /** The ensemble's probabilities: the mean of softmax. */
  function ensemble(networks, points) {
    const each = networks.map((network) => probabilities(outputs(network, points)));
    return each[0].map((row, n) => row.map((_, c) => sum(each.map((rows) => rows[n][c])) / networks.length));
  }

  const predict = (networkOrOutputs, points) =>
    (networkOrOutputs.weights ? outputs(networkOrOutputs, points) : networkOrOutputs).map(argmax);

  /** Share of points whose label is predicted.
   * @param networkOrOutputs a network, or rows of logits or probabilities */
  function accuracy(networkOrOutputs, points, labels) {
    const predicted = predict(networkOrOutputs, points);
    return sum(predicted.map((label, n) => (label === labels[n] ? 1 : 0))) / labels.length;
  }

  /** The mean of all weights, neurons in their order.
   * @param shares of the networks, scaled to sum to one; default: equal */
  function average(networks, shares = networks.map(() => 1)) {
    const total = sum(shares), mean = (values) => sum(values.map((value, k) => value * shares[k])) / total;
    return {
      weights: networks[0].weights.map((W, l) => W.map((row, j) => row.map((_, i) => mean(networks.map((net) => net.weights[l][j][i]))))),
      biases: networks[0].biases.map((b, l) => b.map((_, j) => mean(networks.map((net) => net.biases[l][j])))),
    };
  }

  /** (1 - t) a + t b in weight space. */
  const interpolate = (a, b, t) => average([a, b], [1 - t, t]);

  /** The same function with a hidden level's neurons in another order: place k gets neuron order[k]. */
  function permute(network, level, order) {
    const other = { weights: [...network.weights], biases: [...network.biases] };
    other.weights[level] = order.map((j) => [...network.weights[level][j]]);
    other.biases[level] = order.map((j) => network.biases[level][j]);
    other.weights[level + 1] = network.weights[level + 1].map((row) => order.map((j) => row[j]));
    return other;
  }

  /** The centres of a square's pixels, row by row from the top left: x and y from -extent to extent. */
  const grid = (size, extent) => range(size * size).map((at) =>
    [extent * ((2 * (at % size) + 1) / size - 1), extent * (1 - (2 * Math.floor(at / size) + 1) / size)]);

  /** The most probable class at each point, and its probability, by a network, or by several as an ensemble.
   * @returns {classes, confidence} */
  function regions(networks, points) {
    const rows = ensemble([networks].flat(), points), classes = rows.map(argmax);
    return { classes, confidence: rows.map((row, n) => row[classes[n]]) };
  }

  // ---- importance ---------------------------------------------------------------------------------------------------

  const EPSILON = 1e-8;
  const STEPS = 10;

  /** Points on the path from zero to a sample: the roots of the Legendre polynomial, scaled to 0..1. */
  function gaussLegendre(count) {
    const points = range(count).map((i) => {
      let x = -Math.cos((Math.PI * (i + 0.75)) / (count + 0.5));
      for (let step = 0; step < 50; step++) {
        let before = 1, value = x;
        for (let n = 2; n <= count; n++) [before, value] = [value, ((2 * n - 1) * x * value - (n - 1) * before) / n];
        x -= value / ((count * (x * value - before)) / (x * x - 1));
      }
      return x;
    });
    return points.map((x) => (x + 1) / 2);
  }

  /** Gradients of the true class's logit by every level's pre-activations.
   * @param slope (z, level, n, j) -> the share of the gradient that a ReLU passes on */
  function gradients(network, levels, labels, slope) {
    const depth = levels.length, out = new Array(depth);
    out[depth - 1] = levels[depth - 1].map((row, n) => row.map((_, c) => (c === labels[n] ? 1 : 0)));
    for (let level = depth - 2; level >= 0; level--) {
      const back = product(out[level + 1], network.weights[level + 1]);
      out[level] = back.map((row, n) => row.map((value, j) => value * slope(levels[level][n][j], level, n, j)));
    }
    return out;
  }

  const step = (z) => (z > 0 ? 1 : 0);

  /** Conductance (Dhamdhere et al. 2018): sum over the path from zero to the sample of (h(a_i+1) - h(a_i)) g(a_i). */
  function conductance(network, points, labels) {
    const totals = widthsOf(network).map((width) => zeros(points.length, width));
    let before = null, slopes = null;
    for (const point of gaussLegendre(STEPS + 1)) {
      const levels = forward(network, points.map((row) => row.map((value) => value * point)));
      if (before) {
        totals.forEach((total, l) => total.forEach((row, n) => {
          for (let j = 0; j < row.length; j++) row[j] += (levels[l][n][j] - before[l][n][j]) * slopes[l][n][j];
        }));
      }
      slopes = gradients(network, levels, labels, step);
      before = levels;
    }
    return totals;
  }

  /** DeepLIFT (Shrikumar et al. 2017): difference to the zero input times the multiplier, by the rescale rule. */
  function deepLift(network, points, labels) {
    const levels = forward(network, points), zero = forward(network, [points[0].map(() => 0)]).map((rows) => rows[0]);
    const rescale = (z, level, n, j) => {
      const change = z - zero[level][j];
      return Math.abs(change) < 1e-10 ? step(z) : (Math.max(z, 0) - Math.max(zero[level][j], 0)) / change;
    };
    const multipliers = gradients(network, levels, labels, rescale);
    return levels.map((rows, l) => rows.map((row, n) => row.map((z, j) => (z - zero[l][j]) * multipliers[l][n][j])));
  }

  /** Scores of a network's neurons, level by level; each level's sum to 1.
   * @param score "uniform", "conductance" or "deeplift": absolute attributions, averaged over the points */
  function importance(network, points, labels, score) {
    const widths = widthsOf(network);
    const raw = score === "uniform"
      ? widths.map((width) => new Array(width).fill(1 / width))
      : (score === "conductance" ? conductance : deepLift)(network, points, labels).map((rows) =>
          rows[0].map((_, j) => sum(rows.map((row) => Math.abs(row[j]))) / rows.length));
    return raw.map((values) => {
      const raised = values.map((value) => value + EPSILON), total = sum(raised);
      return raised.map((value) => value / total);
    });
  }

  // ---- groups -------------------------------------------------------------------------------------------------------

  /** Each neuron's weight in its group's mean: s_j / S_k, or equal weights in a group with only zero scores. */
  function shares(labels, scores, width) {
    const totals = new Array(width).fill(0), counts = new Array(width).fill(0);
    labels.forEach((k, j) => { totals[k] += scores[j]; counts[k] += 1; });
    return labels.map((k, j) => (totals[k] > 0 ? scores[j] / totals[k] : 1 / counts[k]));
  }

  /** A (m x d): column k holds s_j / S_k over group k, so that T = Z A are the groups' weighted means. */
  function meansOf(labels, scores, width) {
    const A = zeros(labels.length, width);
    shares(labels, scores, width).forEach((share, j) => { A[j][labels[j]] = share; });
    return A;
  }

  function centroidsOf(vectors, scores, labels, width) {
    const out = zeros(width, vectors[0].length);
    shares(labels, scores, width).forEach((share, j) => vectors[j].forEach((value, i) => { out[labels[j]][i] += share * value; }));
    return out;
  }

  /** sum_j s_j |v_j - centroid of its group|^2: what every grouping minimises. */
  function groupedCost(vectors, scores, labels, width) {
    const centroids = centroidsOf(vectors, scores, labels, width);
    return sum(vectors.map((vector, j) => scores[j] * squaredDistance(vector, centroids[labels[j]])));
  }

  /** Moves the worst-fitting neurons of groups with several members into empty groups, in place. */
  function refill(labels, badness, width) {
    const counts = new Array(width).fill(0);
    labels.forEach((k) => { counts[k] += 1; });
    for (let empty = 0; empty < width; empty++) {
      if (counts[empty]) continue;
      const worst = argmax(labels.map((k, j) => (counts[k] > 1 ? badness[j] : -1)));
      counts[labels[worst]] -= 1;
      labels[worst] = empty;
      counts[empty] = 1;
    }
  }

  /** Neurons chosen as initial centres by greedy k-means++: at each step the best of 2 + log k draws. */
  function seedCentres(vectors, scores, width, draw) {
    const weights = sum(scores) > 0 ? scores : scores.map(() => 1), trials = 2 + Math.floor(Math.log(width)), centres = [];
    let nearest = vectors.map(() => 1);
    for (let k = 0; k < width; k++) {
      const total = sum(nearest.map((distance, j) => distance * weights[j]));
      let best = null;
      for (let trial = 0; trial < (k ? trials : 1); trial++) {
        let left = draw() * total, chosen = 0;
        while (chosen < vectors.length - 1 && (left -= nearest[chosen] * weights[chosen]) > 0) chosen++;
        const reached = vectors.map((vector, j) => {
          const distance = squaredDistance(vector, vectors[chosen]);
          return k ? Math.min(nearest[j], distance) : distance;
        });
        const potential = sum(reached.map((distance, j) => distance * weights[j]));
        if (!best || potential < best.potential) best = { chosen, reached, potential };
      }
      centres.push(best.chosen);
      nearest = best.reached;
    }
    return centres;
  }

  /** Weighted Lloyd iterations from neurons as initial centres. */
  function lloyd(vectors, scores, width, centres, iterations = 300) {
    let labels = vectors.map((vector) => argmax(centres.map((c) => -squaredDistance(vector, vectors[c]))));
    centres.forEach((c, k) => { labels[c] = k; });
    refill(labels, vectors.map(() => 1), width);
    let cost = Infinity;
    for (let iteration = 0; iteration < iterations; iteration++) {
      const centroids = centroidsOf(vectors, scores, labels, width);
      const distances = vectors.map((vector) => centroids.map((centroid) => squaredDistance(vector, centroid)));
      const badness = distances.map((row, j) => scores[j] * row[labels[j]]), now = sum(badness);
      const moved = distances.map((row) => argmax(row.map((distance) => -distance)));
      refill(moved, badness, width);
      const falling = now < cost;
      cost = Math.min(cost, now);
      if (!falling || moved.every((k, j) => k === labels[j])) break;
      labels = moved;
    }
    return { labels, cost };
  }

  /** Weighted k-means: greedy k-means++ with restarts and Lloyd; the lowest cost wins.
   * @param starts further starts: lists of `width` indices of initial centres
   * @returns {labels, cost, centroids} */
  function kmeans(vectors, weights, width, { restarts = 10, seed = 0, starts = [] } = {}) {
    if (width > vectors.length) throw new Error(`${width} groups for ${vectors.length} neurons: some would stay empty.`);
    const draw = random(seed);
    const all = [...range(restarts).map(() => seedCentres(vectors, weights, width, draw)), ...starts];
    const best = all.map((centres) => lloyd(vectors, weights, width, centres)).reduce((a, b) => (b.cost < a.cost ? b : a));
    return { ...best, centroids: centroidsOf(vectors, weights, best.labels, width) };
  }

  /** The assignment of rows to columns with the least total cost (Kuhn 1955; shortest augmenting paths, Jonker and Volgenant).
   * @returns each row's column; -1 if there are more rows than columns and the row has none */
  function hungarian(costs) {
    if (costs.length > costs[0].length) {
      const rows = hungarian(transposed(costs)), out = new Array(costs.length).fill(-1);
      rows.forEach((row, column) => { out[row] = column; });
      return out;
    }
    const rows = costs.length, columns = costs[0].length, u = new Array(rows + 1).fill(0), v = new Array(columns + 1).fill(0);
    const rowOf = new Array(columns + 1).fill(0); // 1-based; 0: free
    for (let row = 1; row <= rows; row++) {
      const least = new Array(columns + 1).fill(Infinity), from = new Array(columns + 1).fill(0), used = new Array(columns + 1).fill(false);
      let column = 0;
      rowOf[0] = row;
      do {
        used[column] = true;
        let delta = Infinity, next = 0;
        for (let j = 1; j <= columns; j++) {
          if (used[j]) continue;
          const reduced = costs[rowOf[column] - 1][j - 1] - u[rowOf[column]] - v[j];
          if (reduced < least[j]) { least[j] = reduced; from[j] = column; }
          if (least[j] < delta) { delta = least[j]; next = j; }
        }
        for (let j = 0; j <= columns; j++) {
          if (used[j]) { u[rowOf[j]] += delta; v[j] -= delta; } else least[j] -= delta;
        }
        column = next;
      } while (rowOf[column] !== 0);
      for (; column; column = from[column]) rowOf[column] = rowOf[from[column]];
    }
    const out = new Array(rows).fill(-1);
    for (let j = 1; j <= columns; j++) if (rowOf[j]) out[rowOf[j] - 1] = j - 1;
    return out;
  }

  /** The exact cost of joining neuron i of A with neuron j of B: the increase of the grouping error. */
  const pairCosts = (vectors, scores, first) => vectors.slice(0, first).map((left, i) => vectors.slice(first).map((right, j) => {
    const s = scores[i], t = scores[first + j];
    return ((s * t) / Math.max(s + t, 1e-300)) * squaredDistance(left, right);
  }));

  /** Why a method cannot group parents of these widths; empty if it can. */
  function whyNot(method, widths, width) {
    const equal = widths.every((own) => own === width), total = sum(widths);
    if (method === "HF" && (widths.length !== 2 || !equal)) return "Hungarian pairs exactly two parents of the fused width.";
    if (method === "same-index" && !equal) return "Same place needs parents of the fused width.";
    return width > total ? `${width} fused neurons for ${total} parents' neurons: groups would stay empty.` : "";
  }

  /** Groups of all parents' neurons side by side.
   * @param method "KF" (k-means), "HF" (Hungarian), "random" or "same-index"
   * @param vectors (m) what neurons are compared by: projected neurons, or columns of outputs
   * @param widths neurons of each parent
   * @returns {labels, cost} */
  function groups(method, vectors, scores, widths, width, { restarts = 10, seed = 0 } = {}) {
    const reason = whyNot(method, widths, width), m = vectors.length;
    if (reason) throw new Error(reason);
    if (method === "KF") {
      const { labels, cost } = kmeans(vectors, scores, width, { restarts, seed, starts: widths[0] >= width ? [range(width)] : [] });
      return { labels, cost };
    }
    let labels;
    if (method === "HF") {
      labels = [...range(width), ...new Array(width)];
      hungarian(pairCosts(vectors, scores, width)).forEach((column, row) => { labels[width + column] = row; });
    } else if (method === "same-index") {
      labels = range(m).map((j) => j % width);
    } else {
      const draw = random(seed), drawn = range(m).map((j) => (j < width ? j : Math.floor(draw() * width)));
      for (let j = m - 1; j > 0; j--) {
        const other = Math.floor(draw() * (j + 1));
        [drawn[j], drawn[other]] = [drawn[other], drawn[j]];
      }
      labels = drawn;
    }
    return { labels, cost: groupedCost(vectors, scores, labels, width) };
  }

  /** The same groups, numbered so that group k's mean is as near as possible to parent 0's neuron k.
   * @param columns (m) the neurons' raw outputs */
  function numbered(labels, columns, scores, width, first) {
    const centroids = centroidsOf(columns, scores, labels, width);
    const slots = hungarian(centroids.map((centroid) => range(first).map((j) => squaredDistance(centroid, columns[j]))));
    const free = range(Math.max(width, first)).filter((slot) => !slots.includes(slot));
    const all = slots.map((slot) => (slot < 0 ? free.shift() : slot)), order = [...all].sort((a, b) => a - b);
    return labels.map((k) => order.indexOf(all[k])); // closes gaps if there are more neurons than groups
  }

  /** Adjusted Rand index of two groupings: 1 for equal ones, 0 on average for independent ones. */
  function adjustedRand(a, b) {
    const pairs = (counts) => sum([...counts.values()].map((n) => (n * (n - 1)) / 2));
    const count = (keys) => keys.reduce((counts, key) => counts.set(key, (counts.get(key) || 0) + 1), new Map());
    const both = pairs(count(a.map((k, j) => `${k} ${b[j]}`))), left = pairs(count(a)), right = pairs(count(b));
    const expected = (left * right) / Math.max((a.length * (a.length - 1)) / 2, 1), most = (left + right) / 2;
    return most === expected ? 1 : (both - expected) / (most - expected);
  }

  // ---- least squares ------------------------------------------------------------------------------------------------

  /** Lower factor of a symmetric matrix, or null if it is not positive definite. */
  function cholesky(matrix) {
    const L = zeros(matrix.length, matrix.length);
    for (let i = 0; i < matrix.length; i++) {
      for (let j = 0; j <= i; j++) {
        let left = matrix[i][j];
        for (let k = 0; k < j; k++) left -= L[i][k] * L[j][k];
        if (i === j && !(left > 0)) return null;
        L[i][j] = i === j ? Math.sqrt(left) : left / L[j][j];
      }
    }
    return L;
  }

  /** L^-1 B. */
  function solveLower(L, B) {
    const out = B.map((row) => [...row]);
    for (let i = 0; i < L.length; i++) {
      for (let k = 0; k < i; k++) for (let c = 0; c < out[i].length; c++) out[i][c] -= L[i][k] * out[k][c];
      for (let c = 0; c < out[i].length; c++) out[i][c] /= L[i][i];
    }
    return out;
  }

  /** L'^-1 B. */
  function solveUpper(L, B) {
    const out = B.map((row) => [...row]);
    for (let i = L.length - 1; i >= 0; i--) {
      for (let k = i + 1; k < L.length; k++) for (let c = 0; c < out[i].length; c++) out[i][c] -= L[k][i] * out[k][c];
      for (let c = 0; c < out[i].length; c++) out[i][c] /= L[i][i];
    }
    return out;
  }

  /** Mean energy of the inputs: the mean of the diagonal of X'X over the weight columns. */
  const meanEnergy = (X) => sum(X.map((row) => sum(row.map((value) => value * value)))) / X[0].length;

  /** lambda in units of sums over rows, from a multiple of the mean input energy such as "0.1x". */
  const strength = (ridge, X) => parseFloat(ridge) * meanEnergy(X);

  /** Lower factor of xx + lambda D; lambda is raised tenfold while rounding makes the matrix indefinite. */
  function ridgedFactor(xx, lambda) {
    for (let raised = lambda; ; raised = Math.max(10 * raised, 1e-154)) {
      const factor = cholesky(xx.map((row, i) => row.map((v, j) => (i === j && i < xx.length - 1 ? v + raised : v))));
      if (factor) return { factor, lambda: raised };
    }
  }

  /** Solves L L' = xx + lambda D, phi = L^-1 xz for all columns of Z at once (docs/method.md, "The solve"); the bias is unpenalised.
   * @param X (N x p) inputs, without the column of ones
   * @returns {phi (p + 1 x m) the projected neurons, weights: A -> V, lambda} */
  function leastSquares(X, Z, lambda) {
    const inputs = X.map(withOne), solved = ridgedFactor(crossProduct(inputs, inputs), lambda);
    const phi = solveLower(solved.factor, crossProduct(inputs, Z));
    return { phi, weights: (A) => solveUpper(solved.factor, product(phi, A)), lambda: solved.lambda };
  }

  // ---- the fusion ---------------------------------------------------------------------------------------------------

  /** The parents' own weights on the fused inputs, W0 (p + 1 x m): its fused neuron replaces each input.
   * @param before labels and width of the previous level, or null at the first */
  function mappedWeights(parents, level, before) {
    let first = 0;
    const columns = parents.flatMap((network) => {
      const W = network.weights[level], own = first;
      first += W[0].length;
      return W.map((row, j) => {
        if (!before) return [...row, network.biases[level][j]];
        const column = new Array(before.width).fill(0);
        row.forEach((value, i) => { column[before.labels[own + i]] += value; });
        return [...column, network.biases[level][j]];
      });
    });
    return transposed(columns);
  }

  /** A level's cost with these targets and outputs (Theorem 1): J = grouping + approximation.
   * @param F (N x d) the fused level's outputs */
  function errors(Z, scores, labels, T, F) {
    const width = T[0].length, totals = new Array(width).fill(0);
    labels.forEach((k, j) => { totals[k] += scores[j]; });
    let grouping = 0, approximation = 0, J = 0, energy = 0;
    for (let n = 0; n < Z.length; n++) {
      for (let j = 0; j < labels.length; j++) {
        const z = Z[n][j], k = labels[j];
        grouping += scores[j] * (z - T[n][k]) ** 2;
        J += scores[j] * (z - F[n][k]) ** 2;
        energy += scores[j] * z * z;
      }
      for (let k = 0; k < width; k++) approximation += totals[k] * (F[n][k] - T[n][k]) ** 2;
    }
    return { J, grouping, approximation, energy, totals };
  }

  /** The ensemble's answer in the place of each parent's logits (N x m): T log of the mean of softmax at a temperature T = 2, with
   * the mean over classes of all logits.
   * @param scores (m) weights of the parents' classes */
  function ensembleAnswers(Z, scores, classes) {
    const T = 2, count = scores.length / classes;
    return Z.map((row) => {
      const said = new Array(classes).fill(0);
      for (let k = 0; k < count; k++) {
        probabilities([row.slice(k * classes, (k + 1) * classes).map((z) => z / T)])[0].forEach((p, c) => {
          said[c] += p * (scores[k * classes + c] + 1e-300);
        });
      }
      const total = (c) => sum(scores.filter((_, j) => j % classes === c).map((s) => s + 1e-300));
      const logits = said.map((p, c) => T * Math.log(p / total(c))), shift = (sum(row) / count - sum(logits)) / classes;
      return Array.from(row, (_, j) => logits[j % classes] + shift);
    });
  }

  /** Retrofitting, level by level (Algorithm 1).
   *
   * options, all but the first two with defaults:
   *   method    "KF", "HF", "random" or "same-index"
   *   score     "uniform", "conductance" or "deeplift", of each parent on its own points, `own`: [{points, labels}, ...], or by
   *             default on the samples with `labels`; or give `scores`: per parent, per level, per neuron
   *   width, widths   neurons of the hidden levels, all or each; default: the first parent's
   *   groups    given labels per hidden level (null: found); they keep their names
   *   ridge     a multiple of the mean input energy: "0.01x"
   *   head      "scores": the last level is fitted to the mean of logits, weighted by scores. "ensemble": to what the ensemble says
   *   fit       false: each group's mean of the parents' own weights, without a fit
   *   inputs    "fused": fit each level on its real inputs in the fused network, so that it repairs earlier errors.
   *             "parents": on the groups' weighted means of the parents' activations, relu(Z) A, which repairs nothing
   *   seed, restarts   of k-means
   *
   * Returns {network, levels}; a level has labels, sizes, width, widths, scores (m), J, grouping, approximation,
   * energy, totals (S_k), cost (of the grouping, in projected neurons), lambda; and matrices: Z (N x m) the parents' outputs,
   * targets T, inputs X (which it was fitted on), outputs F (in the fused network), projected (m vectors that neurons were
   * grouped by), A (m x d). */
  function fuse(parents, samples, options = {}) {
    const { method = "KF", score = "uniform", own, labels, head: answer = "scores", ridge = "0.01x", fit = true, inputs = "fused", seed = 0, restarts = 10 } = options;
    const depth = parents[0].weights.length, answers = parents.map((network) => forward(network, samples));
    const perParent = options.scores || parents.map((network, k) => {
      const data = own ? own[k] : { points: samples, labels };
      return importance(network, data.points, data.labels, score);
    });
    const network = { weights: [], biases: [] }, levels = [];
    let X = samples, real = samples, before = null; // what a level is fitted on, and its real inputs
    for (let level = 0; level < depth; level++) {
      const widths = parents.map((parent) => parent.biases[level].length), head = level === depth - 1;
      const width = head ? widths[0] : (options.widths ? options.widths[level] : options.width) || widths[0];
      const scores = perParent.flatMap((own) => own[level]), told = samples.map((_, n) => [].concat(...answers.map((own) => own[level][n])));
      const Z = head && answer === "ensemble" ? ensembleAnswers(told, scores, width) : told;
      const solution = leastSquares(X, Z, strength(ridge, X));
      const projected = transposed(solution.phi), given = !head && options.groups && options.groups[level];
      const found = given
        ? { labels: given, cost: groupedCost(projected, scores, given, width) }
        : groups(head ? "same-index" : method, projected, scores, widths, width, { seed: seed + level, restarts });
      const names = head || given ? found.labels : numbered(found.labels, transposed(Z), scores, width, widths[0]);
      const A = meansOf(names, scores, width), V = fit ? solution.weights(A) : product(mappedWeights(parents, level, before), A);
      network.weights.push(transposed(V.slice(0, -1)));
      network.biases.push(V.at(-1));
      const T = product(Z, A), F = product(real.map(withOne), V), sizes = new Array(width).fill(0);
      names.forEach((k) => { sizes[k] += 1; });
      levels.push({ labels: names, sizes, width, widths, scores, cost: found.cost, lambda: solution.lambda, Z, targets: T, inputs: X, outputs: F, projected, A, ...errors(Z, scores, names, T, F) });
      before = { labels: names, width };
      real = relu(F);
      X = inputs === "parents" ? product(relu(Z), A) : real;
    }
    return { network, levels };
  }

  return {
    data, transposed, forward, outputs, probabilities, accuracy, ensemble, average, interpolate, permute, grid, regions,
    importance, groups, whyNot, groupedCost, adjustedRand, fuse,
  };
})();
