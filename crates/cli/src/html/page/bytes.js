// Packed numbers, see `sample/packed.rs`: seven bits to a byte, the lowest first, in base64.

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

  /** @returns {boolean} */
  isAtEnd() {
    return this.at >= this.bytes.length;
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

/**
 * A packed list.
 * @param {string} text
 * @returns {Float64Array}
 */
export function list(text) {
  const numbers = new Numbers(text);
  const values = [];
  while (!numbers.isAtEnd()) values.push(numbers.next());
  return Float64Array.from(values);
}
