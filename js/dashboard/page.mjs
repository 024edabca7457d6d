// What the dashboard does to the page around it: the title in the browser's tab, a notification, files.

const WISH = "gibbsite-notify";
let prefix = "";

/** The state of a run before the title of the page; none takes it away. @param {string} words */
export function entitle(words) {
  const plain = prefix && document.title.startsWith(prefix) ? document.title.slice(prefix.length) : document.title;
  prefix = words ? `${words} · ` : "";
  document.title = prefix + plain;
}

/** Whether the reader wishes to be told of ends. */
export function wantsNotice() {
  try {
    return localStorage.getItem(WISH) === "yes" && globalThis.Notification?.permission === "granted";
  } catch {
    return false; // pages may forbid storage
  }
}

/** Ask the browser, where the reader says yes. @param {boolean} yes @returns {Promise<boolean>} */
export async function wishNotice(yes) {
  const granted = yes && (await globalThis.Notification?.requestPermission?.()) === "granted";
  try {
    localStorage.setItem(WISH, granted ? "yes" : "no");
  } catch {
    return false;
  }
  return granted;
}

/** Tell of an end, if nobody looks at the page. @param {string} words */
export function notify(words) {
  if (document.hidden && wantsNotice()) new Notification(words);
}

/** Give a picture to the reader, as SVG or drawn as PNG. @param {{name: string, svg: string}} file @param {string} format */
export async function download({ name, svg }, format) {
  const blob = new Blob([svg], { type: "image/svg+xml" });
  const address = URL.createObjectURL(format === "png" ? await rastered(blob) : blob);
  const link = document.createElement("a");
  Object.assign(link, { href: address, download: `${name}.${format}` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** @param {Blob} blob @returns {Promise<Blob>} */
async function rastered(blob) {
  const image = new Image();
  const address = URL.createObjectURL(blob);
  image.src = address;
  await image.decode();
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: 2 * image.naturalWidth, height: 2 * image.naturalHeight });
  const ink = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  ink.fillStyle = "#ffffff";
  ink.fillRect(0, 0, canvas.width, canvas.height);
  ink.drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(address);
  return new Promise((resolve, reject) =>
    canvas.toBlob((made) => (made ? resolve(made) : reject(new Error("the picture could not be drawn")))),
  );
}
