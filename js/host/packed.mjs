// Texts that travel, and stay in saved notebooks, in compressed form; see `packed` in views/host/wire.py.

/** @param {string} text base64 of zlib of JSON @returns {Promise<any>} */
export async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}
