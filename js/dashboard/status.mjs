// What Python tells of a run in `_status`: types alone.

/**
 * @typedef {{text: string, hint?: string, advice?: string}} Warned
 * @typedef {Record<string, any> & {label: string, chosen: string}} Row a scalar; `chosen` is its dash if plotted
 * @typedef {{label: string, detail: string, share: number|null, colour: string,
 *   strips: {words: string, help: string, ends: string, svg: string}[]}} Block
 * @typedef {{model: string, words: string, colour: string, ended: boolean, stopping: boolean, stop_note: string,
 *   progress: string, message: string, chains: {name: string, colour: string, words: string}[], more_chains: number, share: number, warmup_share: number,
 *   warnings: Warned[], stage: string, heads: string[], cells: string[], rows: Row[], blocks: Block[],
 *   timing: string, timing_note: string, labels: string[], slots: number, auto: boolean, note: string,
 *   without_kernel: {words: string, colour: string, progress: string, message: string},
 *   limits: string, ready: boolean, view: string, answered: number, verdict: string, converged: boolean,
 *   expression_note: {sentence?: string, text?: string, at?: number, length?: number}}} Status what Python tells in `_status`
 * @typedef {{label: string, words: string, wide: boolean, derived: string, svg: string,
 *   rows: {label: string, name: string, at: number}[]}} Card
 * @typedef {{cards?: Card[], focus?: string[], legend?: string, more?: string}} Posterior what it tells in `_posterior`
 */

export {};
