// What follows from a graph's edges: neighbours, Markov blankets, levels, independence. The same definitions as
// in gibbsite/graph, so that they need not travel.

/**
 * @typedef {{kind: string, parents: string[], children: string[]}} Joint
 * @typedef {Joint & {level: string, blanket: string[], box: number[], told: Told}} Fact
 * @typedef {{discrete?: boolean, shape?: number[], plates?: string[], statement?: string, elements?: string,
 *   stands?: string[],
 *   conditional?: string, typeset?: string, latex?: string, form?: string, kernel?: string, reason?: string, blocked?: string,
 *   kernels?: string[], ways?: string[], line?: number, plate?: boolean, updates?: string,
 *   summed?: number, near?: number[]}} Told
 * @typedef {Record<string, Fact>} Facts
 */

// A closed plate that holds latent and observed members, "plate", is random and lets every dependence pass.
const RANDOM = new Set(["latent", "observed", "plate"]);
const INFORMED = new Set(["observed", "factor"]);

/** Parents and children by name, in the order of `names`; loops are left out.
 * @param {string[]} names @param {string[]} kinds @param {number[]} starts @param {number[]} ends
 * @returns {Record<string, Joint>} */
export function joined(names, kinds, starts, ends) {
  /** @type {Record<string, Joint>} */
  const out = Object.create(null);
  names.forEach((n, i) => (out[n] = { kind: kinds[i], parents: [], children: [] }));
  const pairs = starts.map((a, i) => [a, ends[i]]).filter(([a, b]) => a !== b);
  for (const [a, b] of [...pairs].sort((p, q) => p[0] - q[0])) out[names[b]].parents.push(names[a]);
  for (const [a, b] of [...pairs].sort((p, q) => p[1] - q[1])) out[names[a]].children.push(names[b]);
  return out;
}

/** All that can be reached from `from` by repeated `step`, without `from` itself unless it is met again.
 * @param {Iterable<string>} from @param {(name: string) => string[]} step */
function reached(from, step) {
  const found = new Set();
  const stack = [...from];
  while (stack.length) {
    for (const next of step(/** @type {string} */ (stack.pop()))) {
      if (!found.has(next)) {
        found.add(next);
        stack.push(next);
      }
    }
  }
  return found;
}

/** Random ancestors next to a node, seen through deterministic ones.
 * @param {Record<string, Joint>} graph @param {string} name */
function randomParents(graph, name) {
  const near = reached([name], (n) =>
    n === name || graph[n].kind === "deterministic" ? graph[n].parents : [],
  );
  return [...near].filter((n) => RANDOM.has(graph[n].kind));
}

/** Random nodes and factors that read `name`, directly or through deterministic nodes.
 * @param {Record<string, Joint>} graph @param {string} name */
function readers(graph, name) {
  const near = reached([name], (n) =>
    n === name || graph[n].kind === "deterministic" ? graph[n].children : [],
  );
  return [...near].filter((n) => graph[n].kind !== "deterministic" && graph[n].kind !== "data");
}

/** The Markov blanket: parents, children and the children's other parents, seen through deterministic nodes; a
 * factor makes all that it reads neighbours. For a node that is not random: what it is computed from and what
 * reads it. @param {Record<string, Joint>} graph @param {string} name @returns {string[]} */
export function blanketOf(graph, name) {
  const { kind } = graph[name];
  const near = new Set(randomParents(graph, name));
  if (kind !== "factor") {
    for (const child of readers(graph, name)) {
      if (RANDOM.has(graph[child].kind)) near.add(child);
      if (RANDOM.has(kind)) for (const other of randomParents(graph, child)) near.add(other);
    }
  }
  near.delete(name);
  return Object.keys(graph).filter((n) => near.has(n));
}

/** "data" (no latent ancestor), "model" (an observation or factor can see it) or "generated", for every node.
 * @param {Record<string, Joint>} graph @returns {Record<string, string>} */
export function levelsOf(graph) {
  const names = Object.keys(graph);
  const plates = names.filter((n) => graph[n].kind === "plate");
  const informed = [...names.filter((n) => INFORMED.has(graph[n].kind)), ...plates];
  const latents = [...names.filter((n) => graph[n].kind === "latent"), ...plates];
  const seen = new Set([...informed, ...reached(informed, (n) => graph[n].parents)]);
  const touched = new Set([...latents, ...informed, ...reached(latents, (n) => graph[n].children)]);
  const level = (/** @type {string} */ n) => (!touched.has(n) ? "data" : seen.has(n) ? "model" : "generated");
  return Object.fromEntries(names.map((n) => [n, level(n)]));
}

/** A trail from `a` to `b` that `given` leaves open, or [] if they are d-separated (Shachter's Bayes-ball).
 * Observed sites and factors count as given, as in a posterior.
 * @param {Record<string, Joint>} facts @param {string} a @param {string} b @param {string[]} given
 * @returns {string[]} */
export function activeTrail(facts, a, b, given) {
  if (a === b) return [a];
  const fixed = new Set(given);
  for (const [n, { kind }] of Object.entries(facts)) if (INFORMED.has(kind)) fixed.add(n);
  fixed.delete(a);
  fixed.delete(b);
  const told = [...fixed, ...Object.keys(facts).filter((n) => facts[n].kind === "plate")];
  const opened = new Set([...told, ...reached(told, (n) => facts[n].parents)]);
  /** @type {{node: string, up: boolean, from: any}[]} */
  const queue = [{ node: a, up: true, from: null }];
  const seen = new Set([`u${a}`]);
  for (let at = 0; at < queue.length; at++) {
    const state = queue[at];
    const { node, up } = state;
    if (node === b) {
      const trail = [];
      for (let s = state; s !== null; s = s.from) trail.push(s.node);
      return trail.reverse();
    }
    const { parents, children } = facts[node];
    /** @type {[string, boolean][]} */
    const steps = [];
    if (up ? !fixed.has(node) : opened.has(node)) for (const p of parents) steps.push([p, true]);
    if (!fixed.has(node)) for (const c of children) steps.push([c, false]);
    for (const [n, goingUp] of steps) {
      const key = (goingUp ? "u" : "d") + n;
      if (seen.has(key)) continue;
      seen.add(key);
      queue.push({ node: n, up: goingUp, from: state });
    }
  }
  return [];
}

/** Nodes whose name contains the words, exact names first. @param {object} facts @param {string} words */
export function search(facts, words) {
  const text = words.trim().toLowerCase();
  if (!text) return [];
  const names = Object.keys(facts).filter((n) => n.toLowerCase().includes(text));
  return names.sort((a, b) => Number(b.toLowerCase() === text) - Number(a.toLowerCase() === text));
}
