// Packed numbers, see `sample.rs`: seven bits to a byte, the lowest first, in base64.

/**
 * @param {string} text
 * @returns {Uint8Array}
 */
export function unpack(text) {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}

/** Numbers one after the other. */
export class Numbers {
  /** @param {string} text */
  constructor(text) {
    this.bytes = unpack(text);
    this.at = 0;
  }

  /**
   * The next number; whole up to 2^53.
   * @returns {number}
   */
  next() {
    let value = 0;
    let scale = 1;
    for (;;) {
      const byte = this.bytes[this.at++] ?? 0;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 128;
    }
  }
}
