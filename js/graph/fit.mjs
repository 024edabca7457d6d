// How large a graph is drawn in the room that its page has.

export const FIT = [980, 700];
export const PANEL = 330;
export const TALL = 450;
export const LEAST_DRAWN = 420; // of a drawing that gives way to the panel
const LEAST_SNUG = 0.75; // as large as one likes to read
const LEAST_FIT = 0.6; // as small as one can read: below it one scrolls, unless all is asked for
const MOVED = 8; // pixels: less is a scroll bar that comes or goes

/** The width that a drawing and its panel have. @param {any} plot */
export function roomOf(plot) {
  return plot.document?.gibbsiteBox?.clientWidth || document.documentElement.clientWidth;
}

/** The scale of a drawing; whether it is too large to be shown as it is, so that fitting is a choice, and whether
 * it is fitted.
 * @param {number} across @param {number} down @param {number} room @param {boolean|null} wish null where nobody has
 * chosen */
export function scaleOf(across, down, room, wish) {
  const left = room - PANEL - 24; // beside the panel
  const tall = down > TALL; // what is low leaves the panel in sight below it
  // what is a little too wide is drawn a little smaller: nobody looks for a scroll bar there
  const snugs = [tall ? left : 0, room].map((width) => Math.min(1, (width - 4) / across));
  const whole = snugs.find((snug) => snug >= LEAST_SNUG);
  const large = across > FIT[0] || down > FIT[1] + 200 || whole === undefined;
  // what is too large is shown whole where it can be read so, and where that was asked for
  const widths = tall && left >= LEAST_DRAWN ? [left, room] : [room];
  const fits = widths.map((width) => Math.min(Math.min(FIT[0], width - 4) / across, FIT[1] / down, 1));
  /** @param {number} least */
  const readable = (least) => fits.find((snug) => snug >= least);
  const snug = (wish ? undefined : (readable(LEAST_SNUG) ?? readable(LEAST_FIT))) ?? fits[0];
  const fitted = large && (wish ?? snug >= LEAST_FIT);
  return { large, fitted, left, tall, scale: fitted ? snug : (whole ?? 1) };
}

/** Call whenever the page has become wider or narrower since the drawing was arranged. @param {any} plot
 * @param {() => void} call */
export function onRoom(plot, call) {
  plot.gibbsiteRoom = roomOf(plot);
  plot.gibbsiteSeen ??= new ResizeObserver(() => {
    const room = roomOf(plot);
    if (Math.abs(room - plot.gibbsiteRoom) <= MOVED) return;
    plot.gibbsiteRoom = room;
    plot.gibbsiteMoved();
  });
  plot.gibbsiteMoved = call;
  plot.gibbsiteSeen.observe(plot.document?.gibbsiteBox ?? document.documentElement);
}
